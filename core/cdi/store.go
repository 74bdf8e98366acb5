package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/takeover"
)

// Options of [Open]. Dir is required.
type Options struct {
	// Dir is the directory of dynamic specs that the container runtime reads,
	// usually /var/run/cdi. It is created, mode 0755, whenever it is missing.
	Dir string
	// Adopted, if set, is called with the devices that an earlier run defined, which
	// containers may hold, before they are changed. It must not call the store.
	Adopted func(...inventory.Key)
	// Log is where what cannot be returned goes; nil for nowhere.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Timing is for tests; the zero value is right.
	Timing Timing
	// Disk writes the files; a test may let it fail.
	Disk checkpoint.Writer
}

// Timing are the store's intervals. Zero means the default.
type Timing struct {
	// RetryMin and RetryMax bound the pause after a failed write, which doubles
	// each time that it is over. Defaults 1 s and 10 s.
	RetryMin, RetryMax time.Duration
	// Poll is how often Run looks whether the files are still ours, beyond being
	// told by the kernel. Default 10 s.
	Poll time.Duration
}

func (t Timing) withDefaults() Timing {
	t.RetryMin = cmp.Or(t.RetryMin, time.Second)
	t.RetryMax = cmp.Or(t.RetryMax, 10*time.Second)
	t.Poll = cmp.Or(t.Poll, 10*time.Second)
	return t
}

// Store keeps the spec files of one directory. Its methods are safe for
// concurrent use. Stores may share a directory if their backends differ.
type Store struct {
	opts    Options
	log     *slog.Logger
	changed chan struct{}

	mu    sync.Mutex
	files map[kind]*specFile
	// owned are the backends whose specs this store has, with their locks; a lock is nil if
	// it could not be taken. contested says, by backend, that another agent has its specs.
	owned     map[string]*takeover.FileLock
	contested map[string]string
	// names are those of the latest Publish.
	names *Names
	// foreign are other owners' spec files in the directory, by file name.
	foreign map[string]foreignFile
	notes   []string
	// failures is how many pauses ended with another failure, and retryAt the end of
	// the one that goes on; zero if all is written.
	failures int
	retryAt  time.Time
	closed   bool
}

// Open opens the directory. The specs of a backend are locked and loaded by Own, or when one
// of its devices is published. The error is for a directory that can be neither created nor
// read.
func Open(opts Options) (*Store, error) {
	if opts.Dir == "" {
		return nil, errors.New("open the CDI directory: no directory given")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Timing = opts.Timing.withDefaults()
	s := &Store{
		opts: opts, log: opts.Log, changed: make(chan struct{}, 1),
		files: map[kind]*specFile{}, foreign: map[string]foreignFile{},
		owned: map[string]*takeover.FileLock{}, contested: map[string]string{},
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the CDI directory: %w", err)
	}
	if _, err := os.ReadDir(opts.Dir); err != nil {
		return nil, fmt.Errorf("read the CDI directory: %w", err)
	}
	return s, nil
}

// Publish makes the disk define the devices, and returns the names by which new
// containers get them. Only files whose content changes are written. A name of a
// device that held reports is never changed or removed; held is called once for
// a device, must not call the store, and nil means that all are held. Publish
// never fails as a whole: a device that is not on disk has an error in Names, and
// is tried again at the next Publish; see [Names.RetryAt].
func (s *Store) Publish(devices []*inventory.Device, held func(inventory.Key) bool) *Names {
	if held == nil {
		held = func(inventory.Key) bool { return true }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := &Names{names: make(map[inventory.Key]*given, len(devices))}
	if s.closed {
		for _, d := range devices {
			names.names[d.Key] = &given{device: d, err: fmt.Errorf("device %s: the CDI store is closed", d.Key)}
		}
		return names
	}
	if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
		s.log.Error("create the CDI directory", "error", err)
	}
	s.ownAll(devices)
	s.scanForeign()
	wanted := s.wanted(devices, names)
	failed := false
	for _, k := range s.kinds(wanted) {
		if err := s.publishKind(k, wanted[k], held); err != nil {
			s.log.Error("write CDI definitions, trying again", "backend", k.backend, "class", k.class, "error", err)
			failed = true
		}
	}
	names.retryAt = s.backOff(failed)
	if names.retryAt.IsZero() && len(s.contested) > 0 {
		names.retryAt = s.opts.Now().Add(ownRetry)
	}
	s.names = names
	return names
}

// publishKind carries out the plan for one kind.
func (s *Store) publishKind(k kind, wanted []*given, held func(inventory.Key) bool) error {
	f := s.files[k]
	if f == nil {
		f = &specFile{kind: k, dir: s.opts.Dir}
		s.files[k] = f
	}
	prefix := k.qualified("")
	last := func(key inventory.Key) string { return s.names.device(prefix, key) }
	p := plan(f.defs, last, wanted, held, s.room(k))
	writeErr := s.commit(f, p.next)
	for _, w := range wanted {
		key := w.device.Key
		if w.err = p.errs[key]; w.err != nil {
			continue
		}
		device := p.current[key]
		if last(key) == device {
			w.qualified = s.names.names[key].qualified
		} else {
			w.qualified = k.qualified(device)
		}
		switch file := s.conflict(w.qualified); {
		case file != "":
			w.err = fmt.Errorf("CDI device %s is also defined in %s; runtimes ignore a device that two files define: remove that file",
				w.qualified, file)
		case !f.ready(device, p.next[device]):
			w.err = fmt.Errorf("CDI device %s is not on disk: %w", w.qualified, writeErr)
		}
	}
	if len(f.defs) == 0 && len(wanted) == 0 && writeErr == nil {
		delete(s.files, k)
	}
	return writeErr
}

// room is how many bytes the edits of a kind may have, given the other kinds of the
// backend.
func (s *Store) room(k kind) int {
	room := maxSpecs
	for other, f := range s.files {
		if other.backend == k.backend && other != k {
			room -= f.defs.size()
		}
	}
	return room
}

// maxRemovals is how often a file that somebody removes is written again at once.
const maxRemovals = 5

// commit makes the disk say next. Who removes the directory's files, or the directory,
// meanwhile may remove a file before it is in its place, which is no reason to give up.
func (s *Store) commit(f *specFile, next definitions) error {
	for removals := 0; ; removals++ {
		err := f.commit(s.opts.Disk, next)
		if !errors.Is(err, fs.ErrNotExist) || removals == maxRemovals || os.MkdirAll(s.opts.Dir, 0o755) != nil {
			return err
		}
	}
}

// wanted groups the devices by kind, sorted, and puts them into names; what CDI cannot
// express gets its error here.
func (s *Store) wanted(devices []*inventory.Device, names *Names) map[kind][]*given {
	wanted := map[kind][]*given{}
	for _, d := range devices {
		if _, twice := names.names[d.Key]; twice {
			continue
		}
		k := kind{backend: d.Backend, class: d.Class}
		g := s.unchanged(k, d)
		if g == nil {
			g = check(k, d)
		}
		if why := s.contested[d.Backend]; why != "" {
			g.err = errors.New(why)
		}
		if names.names[d.Key] = g; g.err == nil {
			wanted[k] = append(wanted[k], g)
		}
	}
	for _, list := range wanted {
		slices.SortFunc(list, func(a, b *given) int { return cmp.Compare(a.device.ID, b.device.ID) })
	}
	return wanted
}

// unchanged is a device with the edits that it had at the Publish before; else nil.
func (s *Store) unchanged(k kind, d *inventory.Device) *given {
	if s.names == nil {
		return nil
	}
	before := s.names.names[d.Key]
	if before == nil || before.sum == (sum{}) || before.device.Class != k.class ||
		before.device != d && !inventory.SameEdits(before.device.Edits, d.Edits) {
		return nil
	}
	return &given{device: d, sum: before.sum, size: before.size}
}

// check hashes a device's edits, or says why a runtime would not take them.
func check(k kind, d *inventory.Device) *given {
	g := &given{device: d}
	fail := func(err error) *given {
		g.err = fmt.Errorf("device %s cannot be defined for CDI: %w", d.Key, err)
		return g
	}
	if err := k.check(); err != nil {
		return fail(err)
	}
	edits := toCDI(d.Edits)
	if err := checkEdits(edits); errors.Is(err, errNoEdits) && len(d.Edits.EnvSeparators) > 0 {
		return fail(errOnlyJoined)
	} else if err != nil {
		return fail(err)
	}
	text, err := encode(edits)
	if err != nil {
		return fail(err)
	}
	if len(text) > maxEdits {
		return fail(fmt.Errorf("its container edits have %d bytes as JSON; at most %d are allowed", len(text), maxEdits))
	}
	g.sum, g.size = sumOf(text), len(text)
	return g
}

// kinds are those on disk and those wanted, sorted.
func (s *Store) kinds(wanted map[kind][]*given) []kind {
	all := map[kind]bool{}
	for k := range s.files {
		all[k] = true
	}
	for k := range wanted {
		all[k] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b kind) int { return cmp.Compare(a.String(), b.String()) })
}

// backOff is when to try again after a failure; zero after a success. Whoever
// publishes in between does not make the pause longer: it is the disk that needs
// it.
func (s *Store) backOff(failed bool) time.Time {
	now := s.opts.Now()
	switch {
	case !failed:
		s.failures, s.retryAt = 0, time.Time{}
	case !now.Before(s.retryAt): // also the first
		s.failures++
		s.retryAt = now.Add(backoff.After(s.failures, s.opts.Timing.RetryMin, s.opts.Timing.RetryMax))
	}
	return s.retryAt
}

// Close removes the definitions that nobody holds, and files that get empty; nil
// means that all are held. The store does nothing after that.
func (s *Store) Close(held func(inventory.Key) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if held == nil {
		return s.release()
	}
	var errs []error
	for _, k := range s.kinds(nil) {
		f := s.files[k]
		p := plan(f.defs, func(inventory.Key) string { return "" }, nil, held, maxSpecs)
		if len(p.next) > 0 {
			if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
				errs = append(errs, err)
			}
		}
		errs = append(errs, s.commit(f, p.next))
	}
	errs = append(errs, s.release())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove CDI definitions that nobody holds: %w", err)
	}
	return nil
}
