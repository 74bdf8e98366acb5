package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
)

// UUIDs of xclbins, and what the cards of xrtCards are.
const (
	filter = "6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21"
	scaler = "11111111-2222-3333-4444-555555555555"
	u250   = "amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0"
	u200   = "amd.com/xilinx_u200_xdma_201830_2-1561465320"
)

// xrtCards are two U250 and a U200, whose shell has no interfaces.
func xrtCards() fpgatree.Machine {
	m := fpgatree.NewAlveo(fpgatree.U250)
	second, old := m.Alveos[0], fpgatree.NewAlveo(fpgatree.U200).Alveos[0]
	second.Address.Bus, second.Serial = 0x66, "XFL1RTOJJAZX"
	old.Address.Bus, old.Serial = 0x67, "21770205K02Y"
	m.Alveos = append(m.Alveos, second, old)
	return m
}

// xbutilCall is a call of XRT's tool.
type xbutilCall struct {
	// self is the tool's path, as it sees it; args are its arguments; content is what it
	// found in the file that it was given.
	self    string
	args    string
	content []byte
}

// xbutilAnswer is what becomes of a call. The zero value does what was asked.
type xbutilAnswer struct {
	// begun is closed when the tool has started, and hold is waited for before it opens
	// the file, unless it ends before. Either may be nil.
	begun chan<- struct{}
	hold  <-chan struct{}
}

// xbutil is XRT's tool in the root of a tree, for its cards.
type xbutil struct {
	n    *fpgaNode
	path string
	work sync.WaitGroup

	mu    sync.Mutex
	next  []xbutilAnswer
	calls []xbutilCall
}

// newXRTNode is a node with Alveo cards in whose root XRT's tool is installed.
func newXRTNode(t *testing.T, m fpgatree.Machine) (*fpgaNode, *xbutil) {
	t.Helper()
	tree, err := fpgatree.Write(t.TempDir(), m) // what is in memory cannot be executed everywhere
	if err != nil {
		t.Fatal(err)
	}
	n := newFPGANodeOf(t, tree, nil)
	x := &xbutil{n: n, path: filepath.Join(tree.Root, "usr/bin/xbutil")}
	x.install()
	listener, err := net.Listen("unix", filepath.Join(tree.Root, "xbutil.sock"))
	n.change(err)
	t.Cleanup(func() {
		n.change(listener.Close())
		x.work.Wait()
	})
	x.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			x.work.Go(func() {
				defer func() { _ = conn.Close() }()
				if err := x.serve(conn); err != nil {
					t.Error(err)
				}
			})
		}
	})
	return n, x
}

func (x *xbutil) install() {
	x.n.Helper()
	program, err := os.ReadFile(filepath.Join(built.Dir(x.n.T), "xbutil"))
	x.n.change(err)
	x.n.change(os.MkdirAll(filepath.Dir(x.path), 0o755))
	x.n.change(errors.Join(os.WriteFile(x.path+".new", program, 0o755), os.Rename(x.path+".new", x.path)))
}

// serve answers a call.
func (x *xbutil) serve(conn net.Conn) error {
	var words []string
	var call xbutilCall
	lines := bufio.NewReader(conn)
	text, err := lines.ReadBytes('\n')
	if err = errors.Join(err, json.Unmarshal(text, &words)); err != nil || len(words) == 0 {
		return errors.Join(errors.New("what the tool says cannot be read"), err)
	}
	call.self, call.args = words[0], strings.Join(words[1:], " ")
	var answer xbutilAnswer
	x.mu.Lock()
	if len(x.next) > 0 {
		answer, x.next = x.next[0], x.next[1:]
	}
	x.mu.Unlock()
	gone := make(chan struct{})
	content := make(chan []byte, 1)
	go func() {
		defer close(gone)
		text, _ := lines.ReadBytes('\n')
		content <- text
	}()
	if answer.begun != nil {
		close(answer.begun)
	}
	if answer.hold != nil {
		select {
		case <-answer.hold:
		case <-gone:
		}
	}
	if _, err := conn.Write([]byte("\n")); err != nil {
		return err
	}
	if text = <-content; len(text) == 0 {
		return errors.New("the tool has hung up")
	}
	if err := json.Unmarshal(text, &call.content); err != nil {
		return err
	}
	x.mu.Lock()
	x.calls = append(x.calls, call)
	x.mu.Unlock()
	err = x.do(words[1:], call.content)
	_, wrong := conn.Write([]byte("\n"))
	return errors.Join(err, wrong)
}

// do does to a card what the tool was called for.
func (x *xbutil) do(args []string, content []byte) error {
	if len(args) < 3 || args[0] != "program" || args[1] != "--device" {
		return errors.New("the tool was called with what it does not know")
	}
	card := slices.IndexFunc(x.n.machine.Alveos, func(c fpgatree.Alveo) bool {
		at := c.Address
		at.Function++
		return at.String() == args[2]
	})
	return x.n.tree.LoadXclbin(card, fpgatree.XclbinUUID(content))
}

// answer says what becomes of the next call.
func (x *xbutil) answer(a xbutilAnswer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = append(x.next, a)
}

// wantCalls fails unless the tool was called that often, the last time so, with that in
// its file.
func (x *xbutil) wantCalls(times int, args string, content []byte) {
	x.n.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.calls) != times {
		x.n.Fatalf("the tool was called %d times, want %d", len(x.calls), times)
	}
	if last := x.calls[times-1]; last.args != args || !bytes.Equal(last.content, content) {
		x.n.Errorf("the tool was called as %q with %d bytes, want %q with %d", last.args, len(last.content), args, len(content))
	}
}

// xclbin makes a file for the first U250.
func (n *fpgaNode) xclbin(name, uuid string) []byte {
	n.Helper()
	b := fpgatree.Xclbin{VBNV: fpgatree.U250.VBNV, UUID: uuid, Interfaces: fpgatree.U250.Interfaces}.Bytes()
	n.file(name, b)
	return b
}

// loaded is the UUID that a card says.
func (n *fpgaNode) loaded(card int) string {
	n.Helper()
	file, err := n.tree.AlveoFile(card, fpgatree.User, "xclbinuuid")
	n.change(err)
	text, err := os.ReadFile(filepath.Join(n.tree.Root, file))
	n.change(err)
	return strings.TrimSpace(string(text))
}

// allocateOf gives a pod a card of a resource, and says which: its ID, its index, and
// the address of its user function.
func (n *fpgaNode) allocateOf(pod, resource string) (id string, card int, address string) {
	n.Helper()
	allocation, err := n.kubelet.Allocate(n.Context(), pod, "main", resource, 1)
	n.change(err)
	id = allocation.Devices[0]
	card = slices.IndexFunc(n.machine.Alveos, func(c fpgatree.Alveo) bool { return id == "fpga-"+c.Serial+"-user" })
	if card < 0 {
		n.Fatalf("%s is no card of the machine", id)
	}
	at := n.machine.Alveos[card].Address
	at.Function++
	return id, card, at.String()
}
