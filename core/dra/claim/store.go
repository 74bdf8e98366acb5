package claim

import (
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

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// id identifies a claim of a driver.
type id struct {
	driver string
	uid    types.UID
}

// fileName returns the name of the claim's file. Neither a driver's name nor a UID has an
// underscore.
func (i id) fileName() string { return i.driver + "_" + string(i.uid) }

// safe is the syntax of the parts of a file's name: those of a DNS subdomain. A UID is one in
// every known API server, and is checked because it becomes a path.
var safe = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,126}[a-z0-9])?$`)

func (i id) check() error {
	if !safe.MatchString(i.driver) || !safe.MatchString(string(i.uid)) {
		return fmt.Errorf("the driver name %q or the UID %q of a claim cannot be part of a file's name", i.driver, i.uid)
	}
	return nil
}

// Store has the prepared claims, in memory and in a directory. Its methods are safe for concurrent
// use.
type Store struct {
	dir  string
	disk checkpoint.Writer

	mu sync.Mutex
	// claims are those that are prepared, unreadable those whose files could not be read.
	claims     map[id]*Claim
	unreadable map[id]string
}

// Open reads the claims in a directory, which need not exist. Files that cannot be read are
// problems. A damaged one is moved aside; one of another version stays, for a program that reads
// it. disk writes the files.
func Open(dir string, disk checkpoint.Writer) (*Store, error) {
	s := &Store{dir: dir, disk: disk, claims: map[id]*Claim{}, unreadable: map[id]string{}}
	if _, err := checkpoint.Sweep(dir, ""); err != nil {
		return nil, fmt.Errorf("open the record of claims: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the record of claims: %w", err)
	}
	for _, entry := range entries {
		driver, uid, ok := strings.Cut(entry.Name(), "_")
		if i := (id{driver, types.UID(uid)}); ok && i.check() == nil && !strings.HasSuffix(uid, ".corrupt") {
			s.load(i)
		}
	}
	return s, nil
}

// load reads a claim's file.
func (s *Store) load(i id) {
	path := filepath.Join(s.dir, i.fileName())
	var claim *Claim
	payload, err := checkpoint.Read(path, magic)
	if err == nil {
		claim, err = decode(payload)
	}
	if err == nil && (claim.Driver != i.driver || claim.UID != i.uid) {
		err = fmt.Errorf("%w: it has another claim, %s of driver %s", checkpoint.ErrCorrupt, claim.UID, claim.Driver)
	}
	switch {
	case err == nil:
		s.claims[i] = claim
	case errors.Is(err, checkpoint.ErrVersion):
		s.unreadable[i] = err.Error()
	case errors.Is(err, checkpoint.ErrCorrupt):
		s.unreadable[i] = fmt.Sprintf("%v; %s", err, checkpoint.Quarantine(path))
	default:
		s.unreadable[i] = err.Error()
	}
}

// Get returns a prepared claim; nil if there is none.
func (s *Store) Get(driver string, uid types.UID) *Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[id{driver, uid}]
	if c == nil {
		return nil
	}
	return c.clone()
}

// All returns the prepared claims, sorted by driver, namespace and name.
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

// Put stores a claim, in place of the one with its UID. It is on disk when Put returns nil.
func (s *Store) Put(c *Claim) error {
	i := id{c.Driver, c.UID}
	err := errors.Join(i.check(), c.check())
	var payload []byte
	if err == nil {
		payload, err = json.MarshalIndent(c, "", " ")
	}
	if err != nil {
		return fmt.Errorf("store claim %s: %w", c, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.disk.Write(filepath.Join(s.dir, i.fileName()), magic, payload); err != nil {
		return fmt.Errorf("store claim %s: %w", c, err)
	}
	s.claims[i] = c.clone()
	delete(s.unreadable, i)
	return nil
}

// Remove removes a claim, also one whose file cannot be read. A claim that is not there is no
// error. The directory is not synced: after a power cut the claim may be in the record again though no
// pod has it.
func (s *Store) Remove(driver string, uid types.UID) error {
	i := id{driver, uid}
	if err := i.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.disk.Remove(filepath.Join(s.dir, i.fileName())); err != nil {
		return fmt.Errorf("remove claim %s from the record: %w", uid, err)
	}
	delete(s.claims, i)
	delete(s.unreadable, i)
	return nil
}

// Problems returns, for the operator, the claims whose files could not be read, sorted.
func (s *Store) Problems() []inventory.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []inventory.Problem
	for _, i := range slices.SortedFunc(maps.Keys(s.unreadable), func(a, b id) int { return strings.Compare(a.fileName(), b.fileName()) }) {
		all = append(all, inventory.Problem{Message: fmt.Sprintf("dynamic resource allocation: the record of claim %s of driver %s cannot be read: %s",
			i.uid, i.driver, s.unreadable[i])})
	}
	return all
}
