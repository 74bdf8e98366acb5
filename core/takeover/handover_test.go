package takeover

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(intruderEnv); dir != "" {
		intrude(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// place is one end of the other side, closed with the test.
func place(t *testing.T, dir string) *Place {
	t.Helper()
	p, err := Queue(t.Context(), dir, Peer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func take(t *testing.T, dir string) *Post {
	t.Helper()
	p, err := Take(dir, Peer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// shortDir is a directory whose path leaves room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func closed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience.Long):
		t.Fatalf("%s: not within %v", what, patience.Long)
	}
}

// ready waits until a successor is ready.
func ready(t *testing.T, p *Post) (*Successor, []string) {
	t.Helper()
	for {
		if s, failing := p.Ready(); s != nil {
			return s, failing
		}
		closed(t, "a successor is ready", p.Changed())
	}
}

// The whole way of a hand-over: one asks, one lets go, the directory changes
// hands, and the one before learns when it may end.
func TestHandOver(t *testing.T) {
	dir := shortDir(t)
	first := take(t, dir)
	if _, err := Take(dir, Peer{}); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("a second Take gives %v, want an ErrHeld that names the directory", err)
	}
	waiting := place(t, dir)
	if s, _ := first.Ready(); s != nil {
		t.Fatal("a successor is ready before it says so")
	}
	if err := waiting.Ask([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	if _, failing := ready(t, first); !slices.Equal(failing, []string{"a"}) {
		t.Errorf("failing backends are %v, want [a]", failing)
	}
	if err := waiting.Ask(nil); err != nil {
		t.Fatal(err)
	}
	successor, failing := ready(t, first)
	for ; len(failing) > 0; _, failing = first.Ready() {
		closed(t, "the successor's news", first.Changed())
	}
	other := place(t, dir)
	for count := 0; count < 2; {
		closed(t, "the other is let in", first.Changed())
		first.mu.Lock()
		count = len(first.successors)
		first.mu.Unlock()
	}
	if err := first.Yield(successor); err != nil {
		t.Fatal(err)
	}
	closed(t, "the successor is told", waiting.Granted())
	take(t, dir)
	select {
	case <-other.Gone():
		t.Fatal("another one that waits is hung up on while the directory is anybody's")
	default:
	}
	select {
	case <-successor.Over():
		t.Fatal("the first may end before the second has said so")
	default:
	}
	if err := waiting.Taken(); err != nil {
		t.Fatal(err)
	}
	closed(t, "the first may end", successor.Over())
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, "the other is hung up on", other.Gone())
	// A place at the second is at the socket in the directory now.
	if err := place(t, dir).Ask(nil); err != nil {
		t.Error(err)
	}
}

// A successor that dies after it was let in does not keep the first for ever.
func TestSuccessorDies(t *testing.T) {
	dir := shortDir(t)
	first := take(t, dir)
	waiting := place(t, dir)
	if err := waiting.Ask(nil); err != nil {
		t.Fatal(err)
	}
	successor, _ := ready(t, first)
	if err := errors.Join(first.Yield(successor), waiting.Close()); err != nil {
		t.Fatal(err)
	}
	closed(t, "the first notices", successor.Over())
}

// An agent that is about to end tells those who wait, also those who come later,
// and knows when nobody waits.
func TestLeave(t *testing.T) {
	dir := shortDir(t)
	post := take(t, dir)
	if post.Leave() {
		t.Error("somebody waits, though nobody came")
	}
	early := place(t, dir)
	closed(t, "who comes later is told", early.Leaving())
	if !post.Leave() {
		t.Error("nobody waits, though somebody came")
	}
	if err := early.Close(); err != nil {
		t.Fatal(err)
	}
	for post.Leave() {
		closed(t, "the end of the last place", post.Changed())
	}
}

// An agent that ends without a word frees the directory, and its connections
// tell.
func TestActiveGone(t *testing.T) {
	dir := shortDir(t)
	post := take(t, dir)
	waiting := place(t, dir)
	if err := post.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, "the end is noticed", waiting.Gone())
	take(t, dir)
}

// The socket of an agent that was killed is in nobody's way: to queue at it fails
// at once, and to take the directory replaces it.
func TestDeadSocket(t *testing.T) {
	dir := shortDir(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Queue(t.Context(), dir, Peer{}); err == nil {
		t.Fatal("there is a place at a dead socket")
	}
	take(t, dir)
	place(t, dir)
}

// What makes no sense ends a connection, and not the agent; of too many that
// wait, the last ones are turned away.
func TestHostilePeers(t *testing.T) {
	dir := shortDir(t)
	post := take(t, dir)
	for _, text := range []string{"no JSON\n", strings.Repeat("x", maxMessage+1), "[]\n", "\n"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(text)) // it may be hung up already
		if err := conn.SetReadDeadline(time.Now().Add(patience.Long)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.10q: want the agent to hang up", text)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for post.Leave() {
		closed(t, "the end of the last peer", post.Changed())
	}
	for range maxSuccessors {
		closed(t, "a place", place(t, dir).Leaving())
	}
	closed(t, "one too many is turned away", place(t, dir).Gone())
}

// Queue does not outlive its context.
func TestQueueEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := shortDir(t)
	take(t, dir)
	if _, err := Queue(ctx, dir, Peer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Queue gives %v, want the context's end", err)
	}
}

// Each knows who the other is, how long it has been there, and what for; what it says
// of itself is bounded. One that was refused is known for a while.
func TestPeers(t *testing.T) {
	dir := shortDir(t)
	long := strings.Repeat("x", 1000)
	post, err := Take(dir, Peer{Role: RoleActive, PID: 1, Host: "one", Version: long})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = post.Close() }()
	place, err := Queue(t.Context(), dir, Peer{Role: RoleStandby, PID: 2, Host: long})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = place.Close() }()
	if stays, err := Tell(t.Context(), dir, Peer{Role: RoleRefused, PID: 3, Host: long}); err != nil || !stays {
		t.Fatalf("the active one stays: %v, %v", stays, err)
	}
	for len(post.Others()) < 2 {
		closed(t, "the words of both", post.Changed())
	}
	if !post.Leave() { // what is sent after the first word
		t.Error("nobody waits")
	}
	closed(t, "the active one's words", place.Leaving())
	if active := place.Active(); active.PID != 1 || active.Host != "one" || active.Role != RoleActive || len(active.Version) != 253 {
		t.Errorf("the active one is %+v", active)
	}
	others := post.Others()
	if others[0].PID != 2 || others[0].Role != RoleStandby || len(others[0].Host) != 253 {
		t.Errorf("the one that waits is %+v", others[0])
	}
	if others[1].PID != 3 || others[1].Role != RoleRefused || len(others[1].Host) != 253 {
		t.Errorf("the one that was refused is %+v", others[1])
	}
	post.mu.Lock()
	post.refusedAt = time.Now().Add(-refusedFor)
	post.mu.Unlock()
	if others := post.Others(); len(others) != 1 {
		t.Errorf("much later the others are %+v", others)
	}
}

// An agent that is active says that it stays, one that is about to end does not; and one
// that does not answer, as its locks are left by a process that is gone, is not waited for
// longer than the caller wants.
func TestStays(t *testing.T) {
	dir := shortDir(t)
	if stays, err := Tell(t.Context(), dir, Peer{Role: RoleRefused}); stays || err == nil {
		t.Errorf("nobody stays: %v, %v", stays, err)
	}
	post := take(t, dir)
	if stays, err := Tell(t.Context(), dir, Peer{Role: RoleRefused}); !stays || err != nil {
		t.Errorf("an active agent stays: %v, %v", stays, err)
	}
	for post.Leave() {
		closed(t, "the end of the peer", post.Changed())
	}
	if stays, err := Tell(t.Context(), dir, Peer{Role: RoleRefused}); stays || err != nil {
		t.Errorf("one that is about to end stays: %v, %v", stays, err)
	}
	silent := shortDir(t)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(silent, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if stays, _ := Tell(ctx, silent, Peer{Role: RoleRefused}); stays || time.Since(began) > patience.Long/2 {
		t.Errorf("one that does not answer stays: %v, after %v", stays, time.Since(began))
	}
}

// Verifies that a lock is no file but its own: what is linked there is neither locked nor
// changed, and what cannot be a lock is not waited for.
func TestLockIsItsOwnFile(t *testing.T) {
	for name, plant := range map[string]func(victim, lock string) error{
		"symbolic link": os.Symlink,
		"hard link":     os.Link,
		"link to none":  func(_, lock string) error { return os.Symlink(lock+"-victim", lock) },
		"pipe":          func(_, lock string) error { return unix.Mkfifo(lock, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			victim, lock := filepath.Join(dir, "victim"), filepath.Join(dir, lockName)
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plant(victim, lock); err != nil {
				t.Fatal(err)
			}
			release, err := Lock(lock)
			if err == nil {
				t.Error("it is locked", release())
			} else if errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), lock) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("the error is %v", err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("the victim is %q, %v", text, err)
			}
			if _, err := os.Stat(lock + "-victim"); err == nil {
				t.Error("a file is made where the link leads")
			}
		})
	}
}
