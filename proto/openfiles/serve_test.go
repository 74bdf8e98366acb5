package openfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a scan until the test ends, and returns the program's end of the socket.
func serve(t *testing.T, scan func(context.Context, []string) (Processes, error)) *net.UnixConn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		ends[i], _ = conn.(*net.UnixConn)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); Serve(ctx, ends[0], scan) }()
	t.Cleanup(func() { cancel(); <-done; _ = ends[1].Close() })
	return ends[1]
}

// users has one process for each node, whose name is the node.
func users(_ context.Context, nodes []string) (p Processes, err error) {
	for i, node := range nodes {
		p = append(p, Process{i + 1, node})
	}
	return p, nil
}

// The agent answers what it understands, with the ID of the request, and the rest with an error; no request ends
// the next one's answer.
func TestServe(t *testing.T) {
	conn := serve(t, func(ctx context.Context, nodes []string) (Processes, error) {
		if slices.Contains(nodes, "/dev/other") {
			return nil, errors.New("it is not the backend's")
		}
		return users(ctx, nodes)
	})
	nodes := func(n int) string {
		text, _ := json.Marshal(request{3, slices.Repeat([]string{"n"}, n)})
		return string(text)
	}
	for request, want := range map[string]string{
		`{"id": 7, "nodes": ["/dev/a", "/dev/b"]}`:     `{"id":7,"processes":[{"pid":1,"name":"/dev/a"},{"pid":2,"name":"/dev/b"}]}`,
		`{"nodes": ["/dev/a"], "unknown": 1}`:          `{"id":0,"processes":[{"pid":1,"name":"/dev/a"}]}`,
		`{"id": 1, "nodes": []}`:                       `{"id":1}`,
		`{"id": 2, "nodes": ["/dev/a", "/dev/other"]}`: `{"id":2,"error":"it is not the backend's"}`,
		`null`:                          `{"id":0}`,
		`{"id": "a"}`:                   `{"id":0,"error":"read the request: `,
		`{"id": 9, "nodes": "/dev/a"}`:  `{"id":9,"error":"read the request: `,
		`{"id": 1} {}`:                  `{"id":0,"error":"read the request: `,
		"\x00\xff":                      `{"id":0,"error":"read the request: `,
		strings.Repeat("[", maxMessage): `{"id":0,"error":"read the request: `,
		strings.Repeat(" ", maxMessage) + `{"id": 1, "nodes": ["/dev/a"]}`: `{"id":0,"error":"read the request: the message is too long"}`,
		nodes(MaxNodes + 1): `{"id":3,"error":"the request has 257 nodes; at most 256 are possible"}`,
	} {
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		if got, err := receive(conn); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%.60q is answered with %.200q, %v; want %q", request, got, err, want)
		}
	}
}

// As many processes as possible, with the longest names, fit into an answer.
func TestLargestAnswer(t *testing.T) {
	conn := serve(t, func(context.Context, []string) (p Processes, _ error) {
		for i := range MaxProcesses {
			p = append(p, Process{4194304 + i, strings.Repeat("\x01", 15)})
		}
		return p, nil
	})
	c := &client{conn: conn, lock: make(chan struct{}, 1)}
	if p, err := c.ask(t.Context(), []string{"/dev/a"}); err != nil || len(p) != MaxProcesses {
		t.Errorf("%d processes, %v", len(p), err)
	}
}

// A program that only asks gets answers at a rate, and none for what it does not read.
func TestFlood(t *testing.T) {
	var mu sync.Mutex
	scans := 0
	conn := serve(t, func(context.Context, []string) (Processes, error) {
		mu.Lock()
		defer mu.Unlock()
		scans++
		return nil, nil
	})
	began := time.Now()
	_ = conn.SetWriteDeadline(began.Add(500 * time.Millisecond))
	for {
		if _, err := conn.Write([]byte(`{}`)); err != nil {
			break
		}
	}
	patience.Until(t, "the first requests are answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return scans >= burst
	})
	most := burst + perSecond*int(1+time.Since(began)/time.Second)
	mu.Lock()
	defer mu.Unlock()
	if scans > most {
		t.Errorf("%d scans, want at most %d", scans, most)
	}
}

// A program gets the answer of its own request, however many ask at the same time and whatever was given up.
func TestAsk(t *testing.T) {
	slow := make(chan struct{})
	conn := serve(t, func(ctx context.Context, nodes []string) (Processes, error) {
		if nodes[0] == "/dev/slow" {
			<-slow
		}
		return users(ctx, nodes)
	})
	c := &client{conn: conn, lock: make(chan struct{}, 1)}
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.ask(limited, []string{"/dev/slow"}); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a slow scan: %v", err)
	}
	close(slow)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			node := fmt.Sprint("/dev/", i)
			if p, err := c.ask(t.Context(), []string{node}); err != nil || p.String() != node+" (1)" {
				t.Errorf("%s: %v, %v", node, p, err)
			}
		})
	}
	all.Wait()
}

// What is no socket of the agent's, or one that has gone, is an error and not "no process".
func TestNoAgent(t *testing.T) {
	for _, number := range []string{"-1", "x", "4294967296", "60000"} {
		if c, err := open(number); c != nil || err == nil {
			t.Errorf("descriptor %s: %v, %v", number, c, err)
		}
	}
	conn := serve(t, users)
	_ = conn.CloseWrite() // the server ends
	if text, err := receive(conn); err == nil {
		t.Fatalf("it answers with %q", text)
	}
	c := &client{conn: conn, lock: make(chan struct{}, 1)}
	if p, err := c.ask(t.Context(), []string{"/dev/a"}); err == nil {
		t.Errorf("without an agent: %v", p)
	}
}

// FuzzAnswer verifies that any request gets an answer that fits, and that its nodes are bounded.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"id": 7, "nodes": ["/dev/a"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a := answerTo(t.Context(), text, func(ctx context.Context, nodes []string) (Processes, error) {
			if len(nodes) > MaxNodes {
				t.Errorf("%d nodes", len(nodes))
			}
			return nil, fmt.Errorf("%q is no device node that the backend was given", nodes)
		})
		if written, err := json.Marshal(a); err != nil || len(written) > maxMessage || bytes.Contains(written, []byte("\n")) {
			t.Errorf("the answer has %d bytes, %v", len(written), err)
		}
	})
}
