package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Options say where the driver is and how long to wait for it.
type Options struct {
	// Library is the path of libnvidia-ml.so.1. If empty, it is looked for in
	// Root.
	Library string
	// Root is the driver's root as this process sees it: empty or "/" for the
	// host, or where a driver container is mounted, such as /run/nvidia/driver.
	Root string
	// ProcFS is the root of procfs, usually /proc. If it shows a loaded kernel
	// module when the driver is opened, and shows none or another one later, the
	// driver is gone. Empty: not looked at.
	ProcFS string
	// Timeout is how long all reads of one GPU in one call of this package may
	// take together; 3 s if zero, so that a first inventory is there within 10 s
	// even if GPUs hang.
	Timeout time.Duration
	// OpenTimeout is how long opening may take; 30 s if zero.
	OpenTimeout time.Duration
	// Load gives the library at a path, for tests; the real one if nil.
	Load func(path string) (nvml.Interface, error)
}

// Driver is a connection to NVIDIA's driver, open or closed. Its methods may be
// called from several goroutines.
type Driver struct {
	options Options
	system  *lane

	life    sync.Mutex     // held while the driver is opened or closed
	inited  nvml.Interface // the library after nvmlInit; only touched in the system lane
	mu      sync.Mutex
	gpus    []*lane // by index
	session *session
	streams map[*Stream]struct{}
}

// New is a closed driver.
func New(options Options) *Driver {
	if options.Timeout <= 0 {
		options.Timeout = 3 * time.Second
	}
	if options.OpenTimeout <= 0 {
		options.OpenTimeout = 30 * time.Second
	}
	if options.Load == nil {
		options.Load = load
	}
	return &Driver{options: options, system: newLane(), streams: map[*Stream]struct{}{}}
}

// Open connects to the driver. It does nothing if it is open. Without a library
// or a loaded kernel module it fails at once: ErrNoLibrary, ErrNoDriver,
// ErrMismatch, ErrPermission, ErrRestart, ErrNoAnswer, or ErrFailed. It can be
// called again, at the caller's pace.
func (d *Driver) Open(ctx context.Context) error {
	d.life.Lock()
	defer d.life.Unlock()
	if d.current() != nil {
		return nil
	}
	path := d.options.Library
	if path == "" {
		var err error
		if path, err = find(d.options.Root); err != nil {
			return err
		}
	}
	lib, err := d.options.Load(path)
	if err != nil {
		return err
	}
	module := d.module()
	opened, err := ask(ctx, d.system, d.options.OpenTimeout, "nvmlInit", func() outcome[*session] {
		if ret := d.init(lib); ret != nvml.SUCCESS {
			return outcome[*session]{err: failure("nvmlInit", ret)}
		}
		s := &session{lib: d.inited, module: module}
		return outcome[*session]{s, s.readVersions()}
	})
	if err = errors.Join(err, opened.err); err != nil {
		if errors.Is(err, ErrMismatch) { // a driver is loaded; does the library on disk fit it?
			err = errors.Join(err, replaced(path))
		}
		return fmt.Errorf("open the NVIDIA driver (%s): %w", path, err)
	}
	d.mu.Lock()
	d.session = opened.value
	d.mu.Unlock()
	return nil
}

// Version is that of the driver, as in a snapshot; empty if it is not open.
func (d *Driver) Version() string {
	if s := d.current(); s != nil {
		return s.driverVersion
	}
	return ""
}

// within runs f in a lane as long as the session is open. Closing waits for f.
func within[T any](ctx context.Context, d *Driver, s *session, l *lane, what string, f func() T) (T, error) {
	got, err := ask(ctx, l, d.options.Timeout, what, func() outcome[T] {
		if d.current() != s {
			return outcome[T]{err: ErrClosed}
		}
		return outcome[T]{value: f()}
	})
	return got.value, errors.Join(err, got.err)
}

// outcome is what a function in a lane gives: a value, an error, or both.
type outcome[T any] struct {
	value T
	err   error
}

// init calls nvmlInit, unless an earlier one returned after its caller had gone,
// or could not be undone.
func (d *Driver) init(lib nvml.Interface) nvml.Return {
	if d.inited != nil {
		return nvml.SUCCESS
	}
	ret := lib.Init()
	if ret == nvml.SUCCESS {
		d.inited = lib
	}
	return ret
}

// Close ends all streams of events and lets go of the driver, which can be
// unloaded then. While a call hangs in the driver it cannot be let go: Close
// waits for it as long as ctx and the options allow, and returns ErrNoAnswer.
// For its callers the driver is closed nevertheless. Close can be called again,
// to let go later; Open goes on with the same connection.
func (d *Driver) Close(ctx context.Context) error {
	d.life.Lock()
	defer d.life.Unlock()
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout+waitTime)
	defer cancel()
	d.mu.Lock()
	d.session = nil
	streams := slices.Collect(maps.Keys(d.streams))
	d.mu.Unlock()
	var failed error
	for _, stream := range streams {
		failed = errors.Join(failed, stream.Close(ctx))
	}
	if failed == nil {
		failed = d.shutdown(ctx)
	}
	if failed != nil {
		return fmt.Errorf("close the NVIDIA driver: %w", failed)
	}
	return nil
}

// shutdown lets go of the library once no call is in the driver any more.
func (d *Driver) shutdown(ctx context.Context) error {
	d.mu.Lock()
	lanes := slices.Clone(d.gpus)
	d.mu.Unlock()
	for _, l := range lanes {
		if err := l.drain(ctx); err != nil {
			return err
		}
		defer l.open()
	}
	_, err := ask(ctx, d.system, d.options.Timeout, "nvmlShutdown", func() nvml.Return {
		if d.inited == nil {
			return nvml.SUCCESS
		}
		// Whatever it says, there is nothing more to be done with the library.
		ret := d.inited.Shutdown()
		d.inited = nil
		return ret
	})
	return err
}

// lane is the lane of a GPU. Lanes outlive a session, so that a GPU that hangs
// keeps one thread, however often the driver is opened.
func (d *Driver) lane(index int) *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.gpus) <= index {
		d.gpus = append(d.gpus, newLane())
	}
	return d.gpus[index]
}

func (d *Driver) current() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session
}

// module is what procfs says of the loaded kernel module; nil if nothing.
func (d *Driver) module() []byte {
	if d.options.ProcFS == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(d.options.ProcFS, "driver/nvidia/version"))
	if err != nil {
		return nil
	}
	return text
}

// vanished is ErrDriverGone if procfs showed a module at the start and shows
// none, or another one, now.
func (d *Driver) vanished(s *session) error {
	if s.module == nil {
		return nil
	}
	now := d.module()
	switch {
	case now == nil:
		return fmt.Errorf("%w: the kernel module was unloaded", ErrDriverGone)
	case !bytes.Equal(now, s.module):
		return fmt.Errorf("%w: another kernel module was loaded", ErrDriverGone)
	}
	return nil
}
