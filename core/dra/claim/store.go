package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// ID identifies what a driver serves of a claim.
type ID struct {
	Driver string
	UID    types.UID
}

// ID returns the claim's.
func (c *Claim) ID() ID { return ID{c.Driver, c.UID} }

// fileName returns the name of the claim's file. Neither a driver's name nor a UID has an
// underscore.
func (i ID) fileName() string { return i.Driver + "_" + string(i.UID) }

// safe is the syntax of the parts of a file's name: those of a DNS subdomain. A UID is one in
// every known API server, and is checked because it becomes a path.
var safe = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,126}[a-z0-9])?$`)

func (i ID) check() error {
	if !safe.MatchString(i.Driver) || !safe.MatchString(string(i.UID)) {
		return fmt.Errorf("the driver name %q or the UID %q of a claim cannot be part of a file's name", i.Driver, i.UID)
	}
	return nil
}

// Store has the claims, in memory and in a directory. Its methods are safe for concurrent
// use.
type Store struct {
	dir  string
	disk checkpoint.Writer

	mu sync.Mutex
	// claims are those that are known, unreadable those whose files could not be read.
	claims     map[ID]*Claim
	unreadable map[ID]string
	// ended are those among them for which End was called.
	ended map[ID]bool
	// called are those that kubelet called to prepare, also in vain, and has not called to unprepare: it calls for that, or
	// the pod stays.
	called map[ID]bool
	// locks are those of the claims that are locked; each is closed when its claim is unlocked.
	locks map[ID]chan struct{}
}

// Open reads the claims in a directory, which need not exist. Files that cannot be read are
// problems. They stay: their names have the claims, and a program of another version may read
// them. disk writes the files.
func Open(dir string, disk checkpoint.Writer) (*Store, error) {
	s := &Store{dir: dir, disk: disk, claims: map[ID]*Claim{}, unreadable: map[ID]string{}, ended: map[ID]bool{}, called: map[ID]bool{}, locks: map[ID]chan struct{}{}}
	if _, err := checkpoint.Sweep(dir, ""); err != nil {
		return nil, fmt.Errorf("open the record of claims: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the record of claims: %w", err)
	}
	for _, entry := range entries {
		driver, uid, ok := strings.Cut(entry.Name(), "_")
		if i := (ID{driver, types.UID(uid)}); ok && i.check() == nil {
			s.load(i)
		}
	}
	return s, nil
}

// load reads a claim's file.
func (s *Store) load(i ID) {
	path := filepath.Join(s.dir, i.fileName())
	var claim *Claim
	payload, err := checkpoint.Read(path, magic)
	if err == nil {
		claim, err = decode(payload)
	}
	if err == nil && (claim.Driver != i.Driver || claim.UID != i.UID) {
		err = fmt.Errorf("%w: it has another claim, %s of driver %s", checkpoint.ErrCorrupt, claim.UID, claim.Driver)
	}
	if err != nil {
		s.unreadable[i] = err.Error()
		return
	}
	s.claims[i] = claim
}

// lockLimit is how long Lock waits. Kubelet calls for one claim of a driver at a time.
const lockLimit = 5 * time.Second

// Lock waits until no other caller has locked the claim, at most 5 s: a preparation may take minutes. A claim is
// prepared, ended and compared with the API server by one caller at a time.
func (s *Store) Lock(ctx context.Context, i ID) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	for {
		s.mu.Lock()
		unlocked := s.locks[i]
		if unlocked == nil {
			unlocked = make(chan struct{})
			s.locks[i] = unlocked
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.locks, i)
				close(unlocked)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-unlocked:
		case <-ctx.Done():
			return nil, fmt.Errorf("the claim is being prepared or ended: %w", context.Cause(ctx))
		}
	}
}

// WhileUnnamed calls do, unless another claim of the driver has the name of the claim. None gets into the
// record meanwhile.
func (s *Store) WhileUnnamed(c *Claim, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.claims {
		if i.Driver == c.Driver && i.UID != c.UID && other.String() == c.String() {
			return nil
		}
	}
	return do()
}

// Get returns a claim; nil if there is none.
func (s *Store) Get(driver string, uid types.UID) *Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[ID{driver, uid}]
	if c == nil {
		return nil
	}
	return c.clone()
}

// All returns the claims, sorted by driver, namespace and name.
func (s *Store) All() []*Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Claim, 0, len(s.claims))
	for _, c := range s.claims {
		all = append(all, c.clone())
	}
	slices.SortFunc(all, compare)
	return all
}

// Count returns how many claims of a driver there are.
func (s *Store) Count(driver string) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.claims {
		if i.Driver == driver {
			count++
		}
	}
	return count
}

// Called records that kubelet called to prepare a claim. The driver serves until kubelet calls to unprepare it.
func (s *Store) Called(i ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called[i] = true
}

// Finish records that kubelet unprepared a claim, or is not expected to call for it any more.
func (s *Store) Finish(i ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.called, i)
}

// IsCalled reports whether kubelet is expected to call a driver to unprepare a claim.
func (s *Store) IsCalled(driver string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.called {
		if i.Driver == driver {
			return true
		}
	}
	return false
}

// Unreadable returns the claims whose files could not be read, sorted.
func (s *Store) Unreadable() []ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sortedUnreadable()
}

func (s *Store) sortedUnreadable() []ID {
	return slices.SortedFunc(maps.Keys(s.unreadable), func(a, b ID) int { return strings.Compare(a.fileName(), b.fileName()) })
}

// End records in memory that a claim ends, and is about to be removed: it is not prepared any more, its
// devices are released, and its definitions must not stay because the claim is still in the record. Put
// and Expect undo it.
func (s *Store) End(driver string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[ID{driver, uid}] = true
	if c := s.claims[ID{driver, uid}]; c != nil {
		c.Prepared = false
	}
}

// Defines reports whether a CDI name is that of a device of a claim that has not ended, also of one
// whose file could not be read.
func (s *Store) Defines(name string) bool {
	device, uid := cdi.ParseHolderName(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.unreadable {
		if string(i.UID) == uid && !s.ended[i] {
			return true
		}
	}
	for i, c := range s.claims {
		if string(i.UID) == uid && c.has(device) && !s.ended[i] {
			return true
		}
	}
	return false
}

// Find returns the claim that has a device by this CDI name; nil if there is none.
func (s *Store) Find(name string) *Claim {
	device, uid := cdi.ParseHolderName(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.claims {
		if string(i.UID) == uid && c.has(device) {
			return c.clone()
		}
	}
	return nil
}

// Has reports whether a claim has the device, also with admin access.
func (s *Store) Has(device inventory.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.has(device) {
			return true
		}
	}
	return false
}

// Expect stores a claim in memory alone, in place of the one with its UID: it is about to be
// prepared, without a backend, so that nothing must be done for it after a crash.
func (s *Store) Expect(c *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[c.ID()] = c.clone()
	delete(s.ended, c.ID())
}

// Put stores a claim, in place of the one with its UID. It is on disk when Put returns nil. The
// caller has locked the claim; others do not wait for the disk.
func (s *Store) Put(c *Claim) error {
	i := c.ID()
	err := errors.Join(i.check(), c.check())
	var payload []byte
	if err == nil {
		payload, err = json.MarshalIndent(c, "", " ")
	}
	if err != nil {
		return fmt.Errorf("store claim %s: %w", c, err)
	}
	if err := s.disk.Write(filepath.Join(s.dir, i.fileName()), magic, payload); err != nil {
		return fmt.Errorf("store claim %s: %w", c, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[i] = c.clone()
	delete(s.unreadable, i)
	delete(s.ended, i)
	return nil
}

// Remove removes a claim, also one whose file cannot be read. A claim that is not there is no
// error. The directory is not synced: after a power cut the claim may be in the record again though no
// pod has it. The caller has locked the claim.
func (s *Store) Remove(driver string, uid types.UID) error {
	i := ID{driver, uid}
	if err := i.check(); err != nil {
		return err
	}
	if err := s.disk.Remove(filepath.Join(s.dir, i.fileName())); err != nil {
		return fmt.Errorf("remove claim %s from the record: %w", uid, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claims, i)
	delete(s.unreadable, i)
	delete(s.ended, i)
	return nil
}

// Problems returns, for the operator, the claims whose files could not be read, sorted.
func (s *Store) Problems() []inventory.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []inventory.Problem
	for _, i := range s.sortedUnreadable() {
		all = append(all, inventory.Problem{Message: fmt.Sprintf("dynamic resource allocation: the record of claim %s of driver %s cannot be read: %s",
			i.UID, i.Driver, s.unreadable[i])})
	}
	return all
}
