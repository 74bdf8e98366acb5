package fpgadevice

import (
	"crypto/sha256"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/fpgatree"
)

// Device answers for all cards of a tree. Its methods can be called concurrently.
type Device struct {
	tree *fpgatree.Tree
	dev  string // where the nodes are, without links

	mu     sync.Mutex
	known  map[[sha256.Size]byte]Bitstream
	next   []Answer
	resets []Answer
	calls  []*Call
	// programming is held during a programming: the driver does one at a time.
	programming sync.Mutex
}

// Answer is what becomes of one request. The zero value is success, with what the
// bitstream has.
type Answer struct {
	// Errno is the answer.
	Errno unix.Errno
	// Faults are what the card finds wrong with a bitstream, after EIO: the bits of its
	// register. 0 stands for an operation error.
	Faults uint64
	// AFU is what the port has then, whatever the bitstream has. If it is empty, an
	// error leaves the port as it was.
	AFU string
	// Begun is closed when the request has come, and Hold is waited for before
	// anything is done. Either may be nil.
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
	// Node is the name of the node.
	Node string
	// Port is the card's own number of what was reset or programmed.
	Port int
	// Sum is that of the payload, by SHA-256.
	Sum [sha256.Size]byte
	// Done says that it was answered.
	Done bool
}

// New is the device of a tree. Its nodes become files that can be opened; see
// [fpgatree.Tree.OpenNodes].
func New(tb testing.TB, tree *fpgatree.Tree) *Device {
	tb.Helper()
	if err := tree.OpenNodes(); err != nil {
		tb.Fatal(err)
	}
	dev, err := filepath.EvalSymlinks(tree.Devfs())
	if err != nil {
		tb.Fatal(err)
	}
	return &Device{tree: tree, dev: dev, known: map[[sha256.Size]byte]Bitstream{}}
}

// Know tells the device a bitstream by its payload. The card finds all others
// incompatible, and those for another interface.
func (d *Device) Know(b Bitstream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[sha256.Sum256(b.Payload)] = Bitstream{Interface: b.Interface, AFU: b.AFU}
}

// Next says what becomes of the next programmings, in turn; NextReset of the next
// resets.
func (d *Device) Next(answers ...Answer) { d.queue(&d.next, answers) }

// NextReset is Next for resets.
func (d *Device) NextReset(answers ...Answer) { d.queue(&d.resets, answers) }

func (d *Device) queue(queue *[]Answer, answers []Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*queue = append(*queue, answers...)
}

// Calls are what was asked so far, in order.
func (d *Device) Calls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Call
	for _, c := range d.calls {
		all = append(all, *c)
	}
	return all
}

// begin notes a call, and returns what is to become of it.
func (d *Device) begin(c *Call) Answer {
	d.mu.Lock()
	d.calls = append(d.calls, c)
	queue, a := &d.next, Answer{}
	if c.Request == Reset {
		queue = &d.resets
	}
	if len(*queue) > 0 {
		a = (*queue)[0]
		*queue = slices.Delete(*queue, 0, 1)
	}
	d.mu.Unlock()
	if a.Begun != nil {
		close(a.Begun)
	}
	if a.Hold != nil {
		<-a.Hold
	}
	return a
}

// end notes that a call was answered.
func (d *Device) end(c *Call, errno unix.Errno) unix.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.Done = true
	return errno
}
