package supervisor_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Variables of the role host, beside TEST_BACKENDS and TEST_RUN.
const (
	// mountEnv is what the host mounts in its own mount namespace, as "tmpfs:/run".
	mountEnv = "TEST_MOUNT"
	// reaperEnv: if set, the host has a Reaper.
	reaperEnv = "TEST_REAPER"
	// nprocEnv is how many processes and threads the host's user may have (RLIMIT_NPROC),
	// once its backend runs.
	nprocEnv = "TEST_NPROC"
	// backendEnv is the role of the host's backend.
	backendEnv = "TEST_BACKEND_ROLE"
)

// playHost is a process of its own that supervises one backend. It prints the process
// IDs of the backend and of its child (0: none), and then an answer to each line of its input.
func playHost() {
	if err := serveHost(); err != nil {
		fmt.Println(err)
	}
}

func serveHost() error {
	if kind, dir, ok := strings.Cut(os.Getenv(mountEnv), ":"); ok {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Mount("test", dir, kind, 0, ""); err != nil {
			return err
		}
	}
	plug.ReserveThreads(32)
	var reaper *plug.Reaper
	if os.Getenv(reaperEnv) != "" {
		var err error
		if reaper, err = plug.NewReaper(); err != nil {
			return err
		}
		go reaper.Run(context.Background())
	}
	r := newRecorder()
	s, err := supervisor.New(supervisor.Options{
		BackendDir: os.Getenv("TEST_BACKENDS"), Plug: plug.Options{RunDir: os.Getenv("TEST_RUN"), Reaper: reaper}, Sink: r, Timing: fast(),
	})
	if err != nil {
		return err
	}
	s.Apply([]supervisor.Spec{spec(os.Getenv(backendEnv), flagEnv, os.Getenv(flagEnv))})
	for range r.pulse {
		if r.problem("b", "pid") != "" {
			break
		}
	}
	fmt.Println(r.problem("b", "pid"), cmp.Or(r.problem("b", "child"), "0"))
	pid, err := strconv.Atoi(r.problem("b", "pid"))
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(os.Getenv(nprocEnv), 10, 32); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
		// The limit is each process's own, and its backend started before.
		if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return err
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == blockCommand {
			blockThreads(20)
			fmt.Println("answer: <nil>")
			continue
		}
		_, err := s.Prepare(context.Background(), "b", &backendv1.PrepareRequest{Devices: []*backendv1.HeldDevice{{Id: lines.Text()}}, Resource: "example.com/gpu"}, 0, func() {})
		fmt.Println("answer:", err)
	}
	return nil
}

// blockCommand has the host itself block threads.
const blockCommand = "block"

// blockThreads returns when n goroutines were in a system call at the same time.
func blockThreads(n int) {
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		fmt.Println(err)
		return
	}
	var blocked sync.WaitGroup
	for range n {
		blocked.Go(func() { _, _ = unix.Read(pipe[0], make([]byte, 1)) })
	}
	<-time.After(100 * time.Millisecond) // those that are in it by then will do
	_, _ = unix.Write(pipe[1], make([]byte, n))
	blocked.Wait()
	_ = unix.Close(pipe[0])
	_ = unix.Close(pipe[1])
}

// hostProcess is a started host.
type hostProcess struct {
	*exec.Cmd
	// backend and child are process IDs: of its backend, and of that one's child.
	backend, child int
	t              *testing.T
	in             io.Writer
	out            *bufio.Reader
}

// startHost starts a host with the rig's directories, and waits for its backend.
func startHost(t *testing.T, r *rig, change func(*exec.Cmd)) *hostProcess {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	h := &hostProcess{Cmd: exec.CommandContext(t.Context(), self), t: t}
	h.Env = append(os.Environ(), roleEnv+"=host", "TEST_BACKENDS="+r.backendDir, "TEST_RUN="+r.runDir, backendEnv+"=grandchild")
	h.Stderr, h.SysProcAttr = os.Stderr, &syscall.SysProcAttr{}
	if change != nil {
		change(h.Cmd)
	}
	h.in, err = h.StdinPipe()
	must(t, err)
	out, err := h.StdoutPipe()
	must(t, err)
	must(t, h.Start())
	t.Cleanup(func() {
		_ = h.Process.Kill()
		_ = h.Wait()
	})
	h.out = bufio.NewReader(out)
	line := h.line()
	if _, err := fmt.Sscan(line, &h.backend, &h.child); err != nil {
		t.Fatalf("the host prints %q: %v", line, err)
	}
	if h.child != 0 {
		watchExit(t, h.child) // it ignores SIGTERM, and no later host may look for it: killed after the test
	}
	return h
}

// line is the next one that the host prints.
func (h *hostProcess) line() string {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Fatalf("the host prints %q: %v", line, err)
	}
	return line
}

// command gives the host's backend a command, and returns the answer.
func (h *hostProcess) command(command string) string {
	h.t.Helper()
	if _, err := fmt.Fprintln(h.in, command); err != nil {
		h.t.Fatal(err)
	}
	return h.line()
}

// crash crashes the backend and waits until another process of it runs.
func crash(t *testing.T, h *hostProcess) {
	t.Helper()
	if answer := h.command("crash"); !strings.Contains(answer, "exited with status 5") {
		t.Fatalf("the end of a backend: %s", answer)
	}
	for h.command("dev-1") != "answer: <nil>\n" {
	}
}
