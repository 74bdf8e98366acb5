package holders

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/wake"
)

// What is prepared for claims, and with what, is on disk: kubelet's NodeUnprepareResources names a claim and nothing else, and
// neither kubelet nor the API server knows what was done for it.
//
//	Put, not prepared ──► the backend prepares ──► Put, prepared
//	Put, not prepared ──► the releases to come are stored ──► removed
//
// So after a crash at any point the record has every claim for which a backend may have done
// something, and those that are prepared are complete. A claim in the record holds its devices.
//
// Each claim of a driver has a file of its own, with a header that has a version and the checksum
// of the bytes that follow. A file that is damaged, or of a newer version, is reported as a
// problem and does not affect other claims. Its name has the driver and the UID, so the claim can be
// unprepared; until then it holds the devices that kubelet lists for a pod with it.

// ClaimID identifies what a driver serves of a claim.
type ClaimID struct {
	Driver string
	UID    types.UID
}

// ID returns the claim's.
func (c Claim) ID() ClaimID { return ClaimID{c.Driver, c.UID} }

// Claims are those that are prepared, or were to be: a part of the book. Its methods are safe for concurrent use.
type Claims struct{ book *Book }

// Claims returns the book's.
func (b *Book) Claims() *Claims { return &Claims{b} }

// claims are those of the book. The fields belong to Book.mu.
type claims struct {
	dir string
	// all are those that are known, unreadable those whose files could not be read.
	all        map[ClaimID]*ClaimRecord
	unreadable map[ClaimID]string
	// ended are those among them for which End was called.
	ended map[ClaimID]bool
	// called are those that kubelet called to prepare, also in vain, and has not called to unprepare: it calls for that, or
	// the pod stays.
	called map[ClaimID]bool
	// locks are those of the claims that are locked; each is closed when its claim is unlocked.
	locks map[ClaimID]chan struct{}
	// naming is held while a claim gets into all, and by WhileUnnamed, before Book.mu: that waits for the disk.
	naming sync.Mutex
}

func (c *claims) open(dir string) {
	c.dir, c.all, c.unreadable = dir, map[ClaimID]*ClaimRecord{}, map[ClaimID]string{}
	c.ended, c.called, c.locks = map[ClaimID]bool{}, map[ClaimID]bool{}, map[ClaimID]chan struct{}{}
}

// lockLimit is how long Lock waits. Kubelet calls for one claim of a driver at a time.
const lockLimit = 5 * time.Second

// Lock waits until no other caller has locked the claim, at most 5 s: a preparation may take minutes. A claim is
// prepared, ended and compared with the API server by one caller at a time.
func (s *Claims) Lock(ctx context.Context, i ClaimID) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	for {
		s.book.mu.Lock()
		unlocked := s.book.claims.locks[i]
		if unlocked == nil {
			unlocked = make(chan struct{})
			s.book.claims.locks[i] = unlocked
			s.book.mu.Unlock()
			return func() {
				s.book.mu.Lock()
				defer s.book.mu.Unlock()
				delete(s.book.claims.locks, i)
				close(unlocked)
			}, nil
		}
		s.book.mu.Unlock()
		select {
		case <-unlocked:
		case <-ctx.Done():
			return nil, fmt.Errorf("the claim is being prepared or ended: %w", context.Cause(ctx))
		}
	}
}

// WhileUnnamed calls do, unless another claim of the driver has the name of the claim. None gets into the
// record meanwhile.
func (s *Claims) WhileUnnamed(c Claim, do func() error) error {
	s.book.claims.naming.Lock()
	defer s.book.claims.naming.Unlock()
	for _, other := range s.All() {
		if other.Driver == c.Driver && other.UID != c.UID && other.String() == c.String() {
			return nil
		}
	}
	return do()
}

// Get returns a claim; nil if there is none.
func (s *Claims) Get(driver string, uid types.UID) *ClaimRecord {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	c := s.book.claims.all[ClaimID{driver, uid}]
	if c == nil {
		return nil
	}
	return c.clone()
}

// All returns the claims, sorted by driver, namespace and name.
func (s *Claims) All() []*ClaimRecord {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	all := make([]*ClaimRecord, 0, len(s.book.claims.all))
	for _, c := range s.book.claims.all {
		all = append(all, c.clone())
	}
	slices.SortFunc(all, compareClaims)
	return all
}

// Count returns how many claims of a driver there are.
func (s *Claims) Count(driver string) (count int) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	for i := range s.book.claims.all {
		if i.Driver == driver {
			count++
		}
	}
	return count
}

// Called records that kubelet called to prepare a claim. The driver serves until kubelet calls to unprepare it.
func (s *Claims) Called(i ClaimID) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.book.claims.called[i] = true
}

// Finish records that kubelet unprepared a claim, or is not expected to call for it any more.
func (s *Claims) Finish(i ClaimID) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	delete(s.book.claims.called, i)
}

// IsCalled reports whether kubelet is expected to call a driver to unprepare a claim.
func (s *Claims) IsCalled(driver string) bool {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	for i := range s.book.claims.called {
		if i.Driver == driver {
			return true
		}
	}
	return false
}

// Unreadable returns the claims whose files could not be read, sorted.
func (s *Claims) Unreadable() []ClaimID {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return s.sortedUnreadable()
}

func (s *Claims) sortedUnreadable() []ClaimID {
	return slices.SortedFunc(maps.Keys(s.book.claims.unreadable), func(a, b ClaimID) int { return strings.Compare(a.fileName(), b.fileName()) })
}

// End ends a claim: its devices are no longer held, Ended sends them, and the claim leaves the record. After a crash in between
// it is still in the record, and is not prepared if a backend may have released or reset its devices, which callsBackend
// reports; it must not call the book. The error is nil when the releases to come are on disk, if a backend is to be called
// for them. A claim that is not in the record is no error. admin are the devices to which it had admin access, which it did not
// hold. The caller has locked the claim.
func (s *Claims) End(i ClaimID, callsBackend func(inventory.Key) bool) (admin []inventory.Key, err error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	b := s.book
	b.mu.Lock()
	c, again := b.claims.all[i], b.claims.ended[i]
	if c != nil {
		c, admin = c.clone(), c.adminAccess()
	}
	b.mu.Unlock()
	if c != nil && !again && slices.ContainsFunc(c.Devices, func(d ClaimDevice) bool { return callsBackend(d.Key()) }) {
		c.Prepared = false
		if err := s.write(c); err != nil {
			return nil, err
		}
	}
	b.endClaim(i, callsBackend)
	if err := b.Store(); err != nil {
		return nil, err
	}
	if err := b.opts.Disk.Remove(b.claims.path(i)); err != nil { // unsynced: after a power cut it may be in the record though no pod has it
		return admin, fmt.Errorf("remove claim %s from the record: %w", i.UID, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.claims.all, i)
	delete(b.claims.unreadable, i)
	delete(b.claims.ended, i)
	return admin, nil
}

// endClaim takes a claim's devices from it. It is not prepared any more, and its definitions must not stay because the claim is
// still in the record. Put and Expect undo that.
func (b *Book) endClaim(i ClaimID, callsBackend func(inventory.Key) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims.ended[i] = true
	if c := b.claims.all[i]; c != nil {
		c.Prepared = false
	}
	for name, a := range b.allocations {
		if a.holder.is(i) {
			b.drop(name)
			if callsBackend(a.device) {
				b.changes++
			}
		}
	}
	wake.Send(b.changed)
}

// Defines reports whether a CDI name is that of a device of a claim that has not ended, also of one
// whose file could not be read.
func (s *Claims) Defines(name string) bool {
	device, uid := cdi.ParseHolderName(name)
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	for i := range s.book.claims.unreadable {
		if string(i.UID) == uid && !s.book.claims.ended[i] {
			return true
		}
	}
	for i, c := range s.book.claims.all {
		if string(i.UID) == uid && c.has(device) && !s.book.claims.ended[i] {
			return true
		}
	}
	return false
}

// Find returns the claim that has a device by this CDI name; nil if there is none.
func (s *Claims) Find(name string) *ClaimRecord {
	device, uid := cdi.ParseHolderName(name)
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	for i, c := range s.book.claims.all {
		if string(i.UID) == uid && c.has(device) {
			return c.clone()
		}
	}
	return nil
}

// Has reports whether a claim has the device, also with admin access.
func (s *Claims) Has(device inventory.Key) bool {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	for _, c := range s.book.claims.all {
		if c.has(device) {
			return true
		}
	}
	return false
}

// Expect stores a claim in memory alone, in place of the one with its UID: it is about to be
// prepared, without a backend, so that nothing must be done for it after a crash.
func (s *Claims) Expect(c *ClaimRecord) {
	s.book.record(c.clone())
}

// record has a claim in memory, and its devices held.
func (b *Book) record(c *ClaimRecord) {
	b.claims.naming.Lock()
	defer b.claims.naming.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims.all[c.ID()] = c
	delete(b.claims.ended, c.ID())
	b.giveClaim(c.Claim, c.held())
}

// Put stores a claim, in place of the one with its UID, with the reset scopes of the devices that it holds. It is on disk when
// Put returns nil. The caller has locked the claim; others do not wait for the disk.
func (s *Claims) Put(c *ClaimRecord) error {
	c = c.clone()
	s.book.mu.Lock()
	for i := range c.Devices {
		d := &c.Devices[i]
		if a := s.book.allocations[claimed(c.Claim, d.Key())]; a != nil {
			d.ResetGroup, d.Parents = a.reset.Group, a.reset.Parents
		}
	}
	s.book.mu.Unlock()
	if err := s.write(c); err != nil {
		return err
	}
	s.book.record(c)
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	delete(s.book.claims.unreadable, c.ID())
	return nil
}

// Problems returns, for the operator, the claims whose files could not be read, sorted.
func (s *Claims) Problems() []inventory.Problem {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	var all []inventory.Problem
	for _, i := range s.sortedUnreadable() {
		all = append(all, inventory.Problem{Message: fmt.Sprintf("dynamic resource allocation: the record of claim %s of driver %s cannot be read: %s",
			i.UID, i.Driver, s.book.claims.unreadable[i])})
	}
	return all
}
