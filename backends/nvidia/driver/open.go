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

// Options have the driver's location and the time limits.
type Options struct {
	// Library is the path of libnvidia-ml.so.1. If empty, it is searched in
	// Root.
	Library string
	// Root is the driver's root as this process sees it: empty or "/" for the
	// host, or where a driver container is mounted, such as /run/nvidia/driver.
	Root string
	// ProcFS is the root of procfs, usually /proc. If it shows a kernel module when
	// the driver is opened, and none or another one later, the driver counts as
	// unloaded. Empty: not checked.
	ProcFS string
	// Partitions has the profiles of GPUs in MIG mode read, and their GPU instances.
	Partitions bool
	// Timeout is the limit of all reads of one GPU in one call of this package
	// together; 3 s if zero, so that a first inventory is available within 10 s
	// even if GPUs hang.
	Timeout time.Duration
	// OpenTimeout is the limit of Open; 30 s if zero.
	OpenTimeout time.Duration
	// Load loads the library at a path. Tests replace it; nil is the real one.
	Load func(path string) (nvml.Interface, error)
}

// Driver is a connection to NVIDIA's driver, open or closed. Its methods may be
// called from several goroutines.
type Driver struct {
	options Options
	system  *lane

	life    sync.Mutex     // locked while the driver is opened or closed
	inited  nvml.Interface // the library after nvmlInit; only touched in the system lane
	mu      sync.Mutex
	gpus    []*lane // by index
	session *session
	streams map[*Stream]struct{}
}

// New returns a closed driver.
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

// Open connects to the driver. It does nothing if the driver is open. Without a library
// or a loaded kernel module it fails at once: ErrNoLibrary, ErrNoDriver,
// ErrMismatch, ErrPermission, ErrRestart, ErrNoAnswer, or ErrFailed. The caller may
// call it again at any time.
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
	opened, err := run(ctx, d.system, d.options.OpenTimeout, "nvmlInit", func() outcome[*session] {
		if ret := d.init(lib); ret != nvml.SUCCESS {
			return outcome[*session]{err: failure("nvmlInit", ret)}
		}
		s := &session{lib: d.inited, module: module, partitions: d.options.Partitions}
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

// Version returns the version of the driver, as in a snapshot; empty if it is not open.
func (d *Driver) Version() string {
	if s := d.current(); s != nil {
		return s.driverVersion
	}
	return ""
}

// within runs f in a lane as long as the session is open. Closing waits for f.
func within[T any](ctx context.Context, d *Driver, s *session, l *lane, what string, f func() T) (T, error) {
	got, err := run(ctx, l, d.options.Timeout, what, func() outcome[T] {
		if d.current() != s {
			return outcome[T]{err: ErrClosed}
		}
		return outcome[T]{value: f()}
	})
	return got.value, errors.Join(err, got.err)
}

// outcome is the result of a function in a lane: a value, an error, or both.
type outcome[T any] struct {
	value T
	err   error
}

// init calls nvmlInit, unless the library is initialized: by a call whose caller gave up
// waiting, or because it could not be shut down.
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

// Close ends all streams of events and disconnects from the driver, which can be
// unloaded then. Close waits for a call that hangs in the driver as long as ctx and the
// options allow, and then returns ErrNoAnswer. The Driver counts as closed nevertheless.
// Calling Close again retries the disconnection; Open reuses the
// connection.
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

// shutdown calls nvmlShutdown once no other call is in the driver.
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
	_, err := run(ctx, d.system, d.options.Timeout, "nvmlShutdown", func() nvml.Return {
		if d.inited == nil {
			return nvml.SUCCESS
		}
		// Whatever it returns, the library must not be used any more.
		ret := d.inited.Shutdown()
		d.inited = nil
		return ret
	})
	return err
}

// lane returns the lane of a GPU. Lanes outlive a session, so that a GPU that hangs
// occupies one thread, however often the driver is opened.
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

// module returns what procfs reports about the loaded kernel module; nil if nothing.
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

// vanished returns ErrDriverGone if procfs showed a module when the session began, and
// shows none or another one now.
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
