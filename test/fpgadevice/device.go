package fpgadevice

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/trap"
)

// Device answers for all cards of a tree. Its methods can be called concurrently.
type Device struct {
	tree *fpgatree.Tree
	dev  string // where the nodes are, without links
	// seen is where wrapped programs see the tree; empty if where it is.
	seen string

	// done is closed by Close.
	done  chan struct{}
	close func() error
	trap  *trap.Trap

	mu      sync.Mutex
	known   map[[sha256.Size]byte]Bitstream
	next    []Answer
	resets  []Answer
	needs   time.Duration // of a programming
	calls   []*Call
	engines map[string]*sync.Mutex

	// numbers is held while a descriptor gets its number.
	numbers sync.Mutex
}

// Answer is what becomes of one request. The zero value is success, with what the
// bitstream has.
type Answer struct {
	// Node is the one that it is for, such as "dfl-fme.0"; any if empty.
	Node string
	// Errno is the answer.
	Errno unix.Errno
	// Faults are what the card finds wrong with a bitstream, after EIO: the bits of its
	// register. 0 stands for an operation error.
	Faults uint64
	// AFU is what the port has then, whatever the bitstream has. If it is empty, an
	// error leaves the port as it was.
	AFU string
	// Begun is closed when the request has come, and Hold is waited for before
	// anything is done, until the device is closed. Either may be nil.
	Begun chan<- struct{}
	Hold  <-chan struct{}
	// Gone has the card unplugged instead, and not a word said for it but a timeout.
	Gone bool
}

// Request is what was asked.
type Request string

// The requests.
const (
	Reset   Request = "reset"
	Program Request = "program"
)

// Call is a request that a driver took, for the card to answer. Those with a wrong
// argument are not among them.
type Call struct {
	Request Request
	// Node is the name of the node, Function what it is of.
	Node     string
	Function pci.Address
	// Port is the card's own number of what was reset or programmed.
	Port int
	// Size and Sum are those of the payload, Sum by SHA-256.
	Size int
	Sum  [sha256.Size]byte
	// PID is the process that called; 0 for code of this one, by Open.
	PID int
	// Done says that it was answered: with Errno.
	Done  bool
	Errno unix.Errno
}

// New is the device of a tree, until the test ends. Its nodes become files that can be
// opened; see [fpgatree.Tree.OpenNodes].
func New(tb testing.TB, tree *fpgatree.Tree) *Device {
	tb.Helper()
	d, err := Start(tree)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// Start is New without a test: the caller closes it.
func Start(tree *fpgatree.Tree) (*Device, error) {
	if err := tree.OpenNodes(); err != nil {
		return nil, fmt.Errorf("make the nodes files: %w", err)
	}
	dev, err := filepath.EvalSymlinks(tree.Devfs())
	if err != nil {
		return nil, err
	}
	d := &Device{
		tree: tree, dev: dev, done: make(chan struct{}),
		known: map[[sha256.Size]byte]Bitstream{}, engines: map[string]*sync.Mutex{},
	}
	if d.trap, err = trap.Start(filter(), d.answer); err != nil {
		return nil, fmt.Errorf("listen for wrapped commands: %w", err)
	}
	d.close = sync.OnceValue(func() error {
		close(d.done)
		return d.trap.Close()
	})
	return d, nil
}

// Close ends it, once. What still waits for an answer gets ENODEV; wrapped commands that
// go on get ENOSYS, also when they open a file for writing only: end them before.
func (d *Device) Close() error { return d.close() }

// Know tells the device bitstreams by their payloads. The card finds all others
// incompatible, and those for another interface.
func (d *Device) Know(all ...Bitstream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range all {
		d.known[sha256.Sum256(b.Payload)] = Bitstream{Interface: b.Interface, AFU: b.AFU}
	}
}

// Next says what becomes of the next programmings, in turn; NextReset of the next
// resets. An answer for a certain node waits for that node.
func (d *Device) Next(answers ...Answer) { d.queue(&d.next, answers) }

// NextReset is Next for resets.
func (d *Device) NextReset(answers ...Answer) { d.queue(&d.resets, answers) }

func (d *Device) queue(queue *[]Answer, answers []Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*queue = append(*queue, answers...)
}

// Needs says how long the card itself needs for a programming from now on; at first
// none. A real card takes 0.3 s to 3 s.
func (d *Device) Needs(program time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.needs = program
}

// SeenAt says where wrapped programs see the tree, if that is elsewhere, as in a container
// that has its directories mounted. It is called before they start.
func (d *Device) SeenAt(root string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = filepath.Clean(root)
}

// path is where this process has a file of a wrapped program's.
func (d *Device) path(theirs string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rest, ok := strings.CutPrefix(theirs, d.seen+"/"); ok && d.seen != "" {
		return filepath.Join(filepath.Dir(d.dev), rest)
	}
	return theirs
}

// Calls are what was asked so far, in order.
func (d *Device) Calls(kinds ...Request) []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Call
	for _, c := range d.calls {
		if len(kinds) == 0 || slices.Contains(kinds, c.Request) {
			all = append(all, *c)
		}
	}
	return all
}

// begin notes a call, and says what is to become of it and how long the card needs.
func (d *Device) begin(c *Call) (Answer, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	queue, needs := &d.next, d.needs
	if c.Request == Reset {
		queue, needs = &d.resets, 0
	}
	for i, a := range *queue {
		if a.Node == "" || a.Node == c.Node {
			*queue = slices.Delete(*queue, i, i+1)
			return a, needs
		}
	}
	return Answer{}, needs
}

// end notes the answer.
func (d *Device) end(c *Call, errno unix.Errno) unix.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.Done, c.Errno = true, errno
	return errno
}

// wait has the card need its time, and the caller wait as the answer says; false if the
// device was closed meanwhile.
func (d *Device) wait(a Answer, needs time.Duration) bool {
	if a.Begun != nil {
		close(a.Begun)
	}
	if a.Hold != nil {
		select {
		case <-a.Hold:
		case <-d.done:
			return false
		}
	}
	if needs > 0 {
		select {
		case <-time.After(needs):
		case <-d.done:
			return false
		}
	}
	return true
}
