package takeover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// intruderEnv is the directory that the test binary, started by itself as a backend's
// child may be, wants to take.
const intruderEnv = "TEST_INTRUDER"

// intrude asks for the directory of an active agent, and prints what that answers; where
// there is none it takes the lock and the socket.
func intrude(dir string) {
	conn, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err == nil {
		fmt.Fprintln(conn, `{"hello":{"role":"successor","pid":1}}`)
		fmt.Fprintln(conn, `{"ready":true}`)
		answer := make([]byte, 1024)
		n, _ := conn.Read(answer)
		fmt.Printf("%q\n", answer[:n])
		return
	}
	post, err := Take(dir, Peer{Role: RoleActive})
	fmt.Println("took", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = post
}

// startIntruder starts one, and returns the first line that it prints.
func startIntruder(t *testing.T, dir string) (pid int, line string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), intruderEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, line
}

// Verifies that a process which an agent's backend has started cannot take the agent's
// place, though it runs an agent's program, and that the agent can name it.
func TestIntruder(t *testing.T) {
	dir := shortDir(t)
	if err := CheckHolder(dir); err != nil {
		t.Errorf("the holder of no lock: %v", err)
	}
	post := take(t, dir)
	if err := CheckHolder(dir); err != nil {
		t.Errorf("an agent has the lock: %v", err)
	}
	if s := post.Intruder(); s != "" {
		t.Errorf("an intruder before there is one: %s", s)
	}
	pid, answer := startIntruder(t, dir)
	if answer != "\"\"\n" {
		t.Errorf("the agent answers %s", answer)
	}
	want := []string{fmt.Sprintf("process %d (", pid), "is not an accelmux agent: one of this agent's backends started it"}
	if got := post.Intruder(); !strings.Contains(got, want[0]) || !strings.Contains(got, want[1]) {
		t.Errorf("the intruder is %q, want %q", got, want)
	}
	if s, _ := post.Ready(); s != nil || post.Leave() {
		t.Error("it is let in")
	}
}

// Verifies that a process which has the lock and listens, but is no agent, is neither
// queued for nor told, and is named.
func TestLockOfNoAgent(t *testing.T) {
	dir := shortDir(t)
	pid, line := startIntruder(t, dir)
	if line != "took <nil>\n" {
		t.Fatal(line)
	}
	name := fmt.Sprintf("process %d (", pid)
	if err := CheckHolder(dir); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), name) {
		t.Errorf("the holder: %v", err)
	}
	if _, err := Queue(t.Context(), dir, Peer{}); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), name) {
		t.Errorf("to queue: %v", err)
	}
	if stays, err := Tell(t.Context(), dir, Peer{}); stays || !errors.Is(err, ErrNoAgent) {
		t.Errorf("it stays: %v, %v", stays, err)
	}
}

// Verifies that an agent is known by its program.
func TestCheckProcess(t *testing.T) {
	for name, test := range map[string]struct {
		pid int
		ok  bool
	}{"itself": {os.Getpid(), true}, "outside of the container": {0, true}, "another program": {os.Getppid(), false}} {
		err := checkProcess(test.pid)
		if (err == nil) != test.ok || err != nil && (!errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "end it")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	pid := sleep.Process.Pid
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	if err := checkProcess(pid); !errors.Is(err, ErrNoAgent) {
		t.Errorf("a process that has ended: %v", err)
	}
}
