package nvidia

import (
	"context"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// releaseLimit bounds the letting go of a driver.
const releaseLimit = 5 * time.Second

// reopen takes another driver if the settings say so.
func (l *loop) reopen() {
	now := l.cfg.driver
	if now.Library == l.opened.Library && now.Root == l.opened.Root && now.ProcFS == l.opened.ProcFS {
		return
	}
	go release(l.driver)
	l.driver, l.opened, l.stream = l.backend.open(now), now, nil
}

// release lets go of a driver. One that hangs lets go when its call returns.
func release(d *driver.Driver) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	_ = d.Close(ctx)
}

// listen changes over to another stream of events.
func (l *loop) listen(stream *driver.Stream) {
	if before := l.stream; before != nil {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
			defer cancel()
			_ = before.Close(ctx) // one that hangs ends when the driver lets it
		}()
	}
	l.stream = stream
}
