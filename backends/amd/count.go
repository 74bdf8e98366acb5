package amd

import (
	"context"
	"time"

	"github.com/accelmux/accelmux/backends/amd/exporter"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/pci"
)

// count begins to read the counters of a card, if it is time and nobody reads them. A
// card whose reading hangs is not read again before that comes to an end.
func (l *loop) count(known *record, now time.Time) {
	n := &known.counts
	if known.stray || !n.reading.IsZero() || now.Before(n.due) {
		return
	}
	if withLinks := l.cfg.health.XGMI != ignore; n.reader == nil || withLinks != n.withLinks {
		var options []ras.Option
		if !withLinks {
			options = append(options, ras.WithoutXGMI())
		}
		n.reader, n.withLinks = l.backend.seams.counters(known.dir(l.cfg.host.Sysfs), options...), withLinks
		n.links, n.last.XGMI = 0, ras.Count{} // this reader counts from the beginning
	}
	n.reading, n.due = now, now.Add(l.cfg.interval)
	reader := n.reader
	go func() {
		c, err := reader.Read()
		l.post(func() { l.counted(known, reader, c, now, err) })
	}()
}

// counted takes in what a reading found.
func (l *loop) counted(known *record, reader counterReader, c ras.Counters, began time.Time, err error) {
	n := &known.counts
	if n.reading.Equal(began) {
		n.reading = time.Time{}
	}
	if n.reader != reader {
		return // by older settings, or of another slot
	}
	if before := n.last.XGMI.N; l.cfg.health.XGMI == report && c.XGMI.N > before {
		l.backend.log.Warn("XGMI links counted errors", "device", known.gpu.ID, "errors", c.XGMI.N-before)
	}
	known.counted(c, began, err)
}

// consult asks the exporter, if settings say so and it is time.
func (l *loop) consult(ctx context.Context, now time.Time) {
	cfg := l.cfg
	if cfg.health.Exporter == "" || l.asking || now.Before(l.opinions) {
		return
	}
	l.asking, l.opinions = true, now.Add(cfg.interval)
	from := l.backend.seams.exporter(cfg.health.Exporter)
	go func() {
		gpus, err := from.List(ctx)
		l.post(func() {
			l.asking = false
			if cfg == l.cfg {
				l.opined(gpus, err)
			}
		})
	}()
}

// opined takes the exporter's word. It calls all GPUs of a node unhealthy while it
// cannot reach its own agent: of several GPUs, that is no word on any of them.
func (l *loop) opined(gpus []exporter.GPU, err error) {
	mute := ""
	if err != nil {
		mute = err.Error()
	}
	l.mute, l.changed = mute, l.changed || mute != l.mute
	bad, others := map[pci.Address]string{}, 0
	for _, g := range gpus {
		if g.State == exporter.Unhealthy && g.HasPCI {
			bad[g.PCI] = g.Text
		} else {
			others++
		}
	}
	blanket := others == 0 && len(bad) > 1
	for _, known := range l.roster.cards {
		known.bad = ""
		if !blanket && err == nil {
			known.bad = bad[known.gpu.PCI.Address]
		}
	}
}
