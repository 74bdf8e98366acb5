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

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/takeover"
)

// Options of [Open]. Dir is required.
type Options struct {
	// Dir is the directory of dynamic specs that the container runtime reads,
	// usually /var/run/cdi. It is created, mode 0755, whenever it is missing.
	Dir string
	// Adopted, if set, is called with the devices that an earlier run defined, which
	// containers may hold, before their definitions change. It must not call the store.
	Adopted func(...inventory.Key)
	// OnHost checks what is written against the host's files; nil: it is not checked. It must
	// not call the store.
	OnHost func() inventory.OnHost
	// Files announces changes of the directory to Run; nil for none but the polls'.
	Files *filewatch.Watcher
	// Log gets problems that cannot be returned; nil for none.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Timing is for tests; the zero value is right.
	Timing Timing
	// Disk writes the files, without syncs; in tests it may fail.
	Disk checkpoint.Writer
}

// Timing are the store's intervals. Zero means the default.
type Timing struct {
	// RetryMin and RetryMax bound the pause after a failed write, which doubles with each
	// failed retry. Defaults 1 s and 10 s.
	RetryMin, RetryMax time.Duration
	// Poll is the interval at which Run checks the directory, also without an event from the
	// kernel. Default 10 s.
	Poll time.Duration
}

func (t Timing) withDefaults() Timing {
	t.RetryMin = cmp.Or(t.RetryMin, time.Second)
	t.RetryMax = cmp.Or(t.RetryMax, 10*time.Second)
	t.Poll = cmp.Or(t.Poll, 10*time.Second)
	return t
}

// Store writes the spec files of one directory. Its methods are safe for
// concurrent use. Stores may share a directory if their backends differ.
type Store struct {
	opts    Options
	log     *slog.Logger
	changed chan struct{}

	mu    sync.Mutex
	files map[kind]*specFile
	// owned are the backends whose specs this store has, with their locks; a lock is nil if
	// it could not be taken. contested has the problem with a backend whose specs another agent
	// has.
	owned     map[string]*takeover.FileLock
	contested map[string]string
	// names and encoded are of the latest Publish. A device never changes, so its edits are
	// encoded once.
	names   *Names
	encoded map[*inventory.Device]encoded
	// settled are the devices of the latest Publish if it left nothing to do: each has its plain
	// name, and no other name is defined. Otherwise it is nil.
	settled []*inventory.Device
	// foreign are other owners' spec files in the directory, by file name; conflicts has the
	// file that also defines a qualified name.
	foreign   map[string]stamp
	conflicts map[string]string
	notes     []string
	// failures is the number of consecutive failed retries, and retryAt the time of the next
	// one; zero if all is written.
	failures int
	retryAt  time.Time
	closed   bool
}

// encoded has the canonical text of a device's edits, or why CDI cannot carry them.
type encoded struct {
	text string
	err  error
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
	if opts.OnHost == nil {
		opts.OnHost = func() inventory.OnHost { return inventory.Unchecked }
	}
	opts.Timing, opts.Disk.Unsynced = opts.Timing.withDefaults(), true
	s := &Store{
		opts: opts, log: opts.Log, changed: make(chan struct{}, 1),
		files: map[kind]*specFile{},
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

// Publish writes the definitions of the devices and returns the names by which new
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
	names := &Names{names: make(map[inventory.Key]name, len(devices))}
	if s.closed {
		for _, d := range devices {
			names.names[d.Key] = name{err: fmt.Errorf("device %s: %w", d.Key, errClosed)}
		}
		return names
	}
	if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
		s.log.Error("create the CDI directory", "error", err)
	}
	s.ownAll(devices)
	s.scanForeign()
	if s.isSettled(devices) {
		return s.names
	}
	wanted := s.wanted(devices, names)
	failed := false
	for _, k := range s.kinds(wanted) {
		if err := s.publishKind(k, wanted[k], held, names); err != nil {
			s.log.Error("CDI definitions not written, trying again", "backend", k.backend, "class", k.class, "error", err)
			failed = true
		}
	}
	names.retryAt = s.backOff(failed)
	if names.retryAt.IsZero() && len(s.contested) > 0 {
		names.retryAt = s.opts.Now().Add(ownRetry)
	}
	s.names, s.settled = names, nil
	if !failed && s.allPlain(devices) {
		s.settled = slices.Clone(devices)
	}
	return names
}

// publishKind carries out the plan for one kind.
func (s *Store) publishKind(k kind, wanted []wantedDevice, held func(inventory.Key) bool, names *Names) error {
	f := s.file(k)
	p := plan(k, f.defs, func(id string) string { return s.names.device(k, id) }, wanted, held, s.room(k))
	writeErr := s.commit(f, p.next)
	for _, w := range wanted {
		if err := p.errs[w.id]; err != nil {
			names.names[k.key(w.id)] = name{err: err}
			continue
		}
		n := name{qualified: k.qualified(p.current[w.id])}
		if file := s.conflicts[n.qualified]; file != "" {
			n.err = fmt.Errorf("CDI device %s is also defined in %s; runtimes ignore a device that two files define: remove that file",
				n.qualified, file)
		} else if err := f.withheld[p.current[w.id]]; err != nil {
			n.err = notDefined(k.key(w.id), err)
		} else if !f.ready(p.current[w.id], w.text) {
			n.err = fmt.Errorf("CDI device %s is not on disk: %w", n.qualified, writeErr)
		}
		names.names[k.key(w.id)] = n
	}
	if len(f.defs) == 0 && len(wanted) == 0 && writeErr == nil {
		delete(s.files, k)
	}
	return writeErr
}

// file returns the spec file of the kind.
func (s *Store) file(k kind) *specFile {
	f := s.files[k]
	if f == nil {
		f = &specFile{kind: k, dir: s.opts.Dir}
		s.files[k] = f
	}
	return f
}

// room returns how many bytes the edits of a kind may have beside the backend's other kinds.
func (s *Store) room(k kind) int {
	room := maxSpecs
	for other, f := range s.files {
		if other.backend == k.backend && other != k {
			room -= f.defs.size()
		}
	}
	return room
}

// maxRemovals is how often a file that was removed while it was written is written again.
const maxRemovals = 5

// commit makes the file define next. A removal of the directory, or of what is in it, may go on
// meanwhile and remove the new file; then it is written again at once, so that no device
// becomes unhealthy.
func (s *Store) commit(f *specFile, next definitions) error {
	for removals := 0; ; removals++ {
		err := f.commit(s.opts.Disk, next, s.stillAllowed(f.kind))
		if !errors.Is(err, fs.ErrNotExist) || removals == maxRemovals || os.MkdirAll(s.opts.Dir, 0o755) != nil {
			return err
		}
	}
}

// stillAllowed returns a check of definitions of an earlier time against the configuration and the
// host's files as they are now.
func (s *Store) stillAllowed(k kind) func(text string) error {
	onHost := s.opts.OnHost()
	return func(text string) error {
		edits, err := decodeEdits(text)
		if err == nil {
			_, err = onHost(k.backend, fromCDI(edits))
		}
		return err
	}
}

// wanted returns the devices by kind, sorted. A device that CDI cannot express, or whose new
// definition would give a container what the host's files refuse, gets its error in names.
func (s *Store) wanted(devices []*inventory.Device, names *Names) map[kind][]wantedDevice {
	wanted, all := map[kind][]wantedDevice{}, make(map[*inventory.Device]encoded, len(devices))
	onHost := s.opts.OnHost()
	for _, d := range devices {
		if _, twice := names.names[d.Key]; twice {
			continue
		}
		e, known := s.encoded[d]
		if !known {
			e = encode(d)
		}
		all[d] = e
		if why := s.contested[d.Backend]; why != "" {
			e.err = errors.New(why)
		}
		k := kind{backend: d.Backend, class: d.Class}
		if e.err == nil && !s.defines(k, d.ID, e.text) {
			if _, err := onHost(d.Backend, d.Edits); err != nil {
				e.err = notDefined(d.Key, err)
			}
		}
		if names.names[d.Key] = (name{err: e.err}); e.err == nil {
			wanted[k] = append(wanted[k], wantedDevice{d.ID, e.text})
		}
	}
	for _, list := range wanted {
		slices.SortFunc(list, func(a, b wantedDevice) int { return cmp.Compare(a.id, b.id) })
	}
	s.encoded = all
	return wanted
}

// notDefined is the error for a device with edits that a check refused.
func notDefined(device inventory.Key, err error) error {
	return fmt.Errorf("device %s is not defined for CDI: %w", device, err)
}

// defines reports whether the device's file defines it with these edits.
func (s *Store) defines(k kind, id, text string) bool {
	f := s.files[k]
	return f != nil && (f.defs[plainName(id)] == text || f.defs[derivedName(id, text)] == text)
}

// encode encodes a device's edits. The error is for edits that a runtime would not accept.
func encode(d *inventory.Device) encoded {
	fail := func(err error) encoded {
		return encoded{err: fmt.Errorf("device %s cannot be defined for CDI: %w", d.Key, err)}
	}
	if err := errors.Join(kind{d.Backend, d.Class}.check(), checkID(d.ID)); err != nil {
		return fail(err)
	}
	if !d.Edits.Moves() {
		return fail(errNoNetHook)
	}
	edits := toCDI(d.Edits)
	if err := checkEdits(edits); errors.Is(err, errNoEdits) && len(d.Edits.EnvSeparators) > 0 {
		return fail(errOnlyJoined)
	} else if err != nil {
		return fail(err)
	}
	text, err := encodeEdits(edits)
	if err != nil {
		return fail(err)
	}
	if len(text) > maxEdits {
		return fail(fmt.Errorf("its container edits have %d bytes as JSON; at most %d are allowed", len(text), maxEdits))
	}
	return encoded{text: text}
}

// Definition is the meaning of one CDI name.
type Definition struct {
	// Name is fully qualified.
	Name   string
	Device inventory.Key
	// Edits are all that a container gets by the name.
	Edits specs.ContainerEdits
}

// Definitions returns all definitions, sorted by name: those of the current devices, those
// that stay for containers, and those of holders.
func (s *Store) Definitions() []Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Definition
	for k, f := range s.files {
		for name, text := range f.defs {
			if edits, err := decodeEdits(text); err == nil {
				out = append(out, Definition{Name: k.qualified(name), Device: k.key(deviceID(name)), Edits: *edits})
			}
		}
	}
	slices.SortFunc(out, func(a, b Definition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Withheld is a definition that is not on disk, though a container that restarts needs it.
type Withheld struct {
	// Name is fully qualified.
	Name   string
	Device inventory.Key
	// Err is why it was not written again, for the operator.
	Err error
}

// Withheld returns, sorted by name, the definitions that were not written again after their file was
// removed or changed, because the check on the host refuses them. Each Publish checks them again.
func (s *Store) Withheld() []Withheld {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Withheld
	for k, f := range s.files {
		for name, err := range f.withheld {
			out = append(out, Withheld{k.qualified(name), k.key(deviceID(name)), err})
		}
	}
	slices.SortFunc(out, func(a, b Withheld) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Notes returns the problems with the directory.
func (s *Store) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.contestedNotes(), s.uncheckedNotes(), s.notes)
}

// kinds returns the kinds on disk and those wanted, sorted.
func (s *Store) kinds(wanted map[kind][]wantedDevice) []kind {
	all := map[kind]bool{}
	for k := range s.files {
		all[k] = true
	}
	for k := range wanted {
		all[k] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b kind) int { return cmp.Compare(a.String(), b.String()) })
}

// backOff returns when to try again after a failure; zero after a success. A Publish before
// that time does not make the pause longer.
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

// Close removes the definitions of devices that are not held, and empty files; nil
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
		p := plan(k, f.defs, func(string) string { return "" }, nil, held, maxSpecs)
		if len(p.next) > 0 {
			if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
				errs = append(errs, err)
			}
		}
		errs = append(errs, s.commit(f, p.next))
	}
	errs = append(errs, s.release())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the CDI definitions of devices that are not held: %w", err)
	}
	return nil
}
