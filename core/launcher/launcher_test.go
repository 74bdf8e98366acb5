package launcher

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/test/patience"
)

// TestMain is also the programs of the tests: the relay, and what it starts.
func TestMain(m *testing.M) {
	switch os.Getenv("LAUNCHER_TEST") {
	case "":
		goleak.VerifyTestMain(m)
	case "relay":
		status, err := Relay(os.Args[1], Start{Program: os.Args[2], Env: []string{"LAUNCHER_TEST=" + os.Args[2]}}, func(report json.RawMessage) {
			if string(report) != `"its sandbox"` {
				panic(string(report))
			}
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
		EndLike(status)
	case "seven":
		os.Exit(7)
	case "print":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
	case "wait": // until a signal, and prints both
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		fmt.Println(os.Getpid())
		fmt.Println(<-ended)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(os.Getpid())
		select {}
	}
}

// serve runs a launcher of the test's programs, and returns its socket and how to end it.
func serve(t *testing.T) (socket string, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "l") // t.TempDir's are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s", "launcher.sock")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, Options{Socket: socket, Log: slog.New(slog.DiscardHandler), Prepare: func(s Start) (Process, error) {
			if s.Program == "unknown" {
				return nil, errors.New("there is no program unknown")
			}
			cmd := &exec.Cmd{Path: os.Args[0], Args: []string{s.Program}, Env: s.Env, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
			return &process{cmd: cmd, started: make(chan struct{})}, nil
		}, Find: func(_ context.Context, s Search) (openfiles.Processes, error) {
			if len(s.Devices) == 0 {
				return nil, errors.New("no\n\x1b[31mdevices")
			}
			return openfiles.Processes{{PID: 7, Name: "py\n\x1b[31mthon"}}, nil
		}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Serve:", err)
		}
	})
	patience.Until(t, "the socket is there", func() bool { _, err := os.Stat(socket); return err == nil })
	return socket, cancel
}

// process is one of the test's programs.
type process struct {
	cmd     *exec.Cmd
	started chan struct{}
}

func (p *process) Run(stdout, stderr *os.File, begun func(report any)) (unix.WaitStatus, error) {
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	err := p.cmd.Start()
	closeAll([]*os.File{stdout, stderr})
	if err != nil {
		return 0, err
	}
	close(p.started)
	begun("its sandbox")
	_ = p.cmd.Wait() // its error is the status
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return unix.WaitStatus(status), nil
}

func (p *process) Signal(signal unix.Signal) {
	<-p.started
	_ = syscall.Kill(-p.cmd.Process.Pid, signal)
}

// relay starts the relay of a program.
func relay(t *testing.T, socket, program string) (cmd *exec.Cmd, out, errs *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0], socket, program)
	cmd.Env = []string{"LAUNCHER_TEST=relay"}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewReader(stdout), bufio.NewReader(stderr)
}

// TestEndings verifies that a relay ends as its program does, and passes on what that prints.
func TestEndings(t *testing.T) {
	socket, _ := serve(t)
	for program, want := range map[string]struct {
		status    string
		out, errs string
	}{
		"print":   {"exit status 0", "out\n", "err\n"},
		"seven":   {"exit status 7", "", ""},
		"unknown": {"exit status 99", "", "there is no program unknown\n"},
	} {
		t.Run(program, func(t *testing.T) {
			cmd, out, errs := relay(t, socket, program)
			gotOut, _ := io.ReadAll(out)
			gotErrs, _ := io.ReadAll(errs)
			_ = cmd.Wait()
			if got := cmd.ProcessState.String(); got != want.status || string(gotOut) != want.out || string(gotErrs) != want.errs {
				t.Errorf("%s, %q, %q; want %v", got, gotOut, gotErrs, want)
			}
		})
	}
}

// TestSignals verifies that SIGTERM reaches the program, and that it does not outlive its relay.
func TestSignals(t *testing.T) {
	socket, _ := serve(t)
	t.Run("SIGTERM", func(t *testing.T) {
		cmd, out, _ := relay(t, socket, "wait")
		pidOf(t, out)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		rest, _ := io.ReadAll(out)
		if err := cmd.Wait(); err != nil || string(rest) != "terminated\n" {
			t.Errorf("%v, %q; want the program's own end", err, rest)
		}
	})
	t.Run("SIGKILL", func(t *testing.T) {
		cmd, out, _ := relay(t, socket, "deaf")
		pid := pidOf(t, out)
		_ = cmd.Process.Kill()
		if _, err := io.ReadAll(out); err != nil { // it has ended when nothing has its output open
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Errorf("the program is there after its relay was killed: %v", err)
		}
	})
}

// TestLauncherEndsAfterItsProcesses verifies that a launcher whose context ends waits until the agent has ended its processes.
func TestLauncherEndsAfterItsProcesses(t *testing.T) {
	socket, end := serve(t)
	cmd, out, _ := relay(t, socket, "wait")
	pidOf(t, out)
	end()
	if _, err := Relay(socket, Start{Program: "print"}, nil); err == nil {
		t.Error("a launcher that ends starts a process")
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if rest, _ := io.ReadAll(out); string(rest) != "terminated\n" {
		t.Errorf("the program ended with %q, before the agent ended it", rest)
	}
	_ = cmd.Wait()
}

func pidOf(t *testing.T, out *bufio.Reader) (pid int) {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal("the program did not start: ", err)
	}
	if _, err := fmt.Sscan(strings.TrimSpace(line), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// Verifies a search for the processes that have devices open: what a launcher answers is printable.
func TestFind(t *testing.T) {
	socket, end := serve(t)
	found, err := Find(t.Context(), socket, Search{Devices: []openfiles.Device{{Major: 1, Minor: 7}}})
	if got := found.String(); err != nil || !strings.HasPrefix(got, "py") || !strings.HasSuffix(got, "thon (7)") || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Find(t.Context(), socket, Search{}); err == nil || !strings.HasSuffix(err.Error(), "devices") || strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Errorf("an error of the launcher: %v", err)
	}
	end()
	if found, err := Find(t.Context(), filepath.Join(filepath.Dir(socket), "none"), Search{}); !errors.Is(err, ErrAway) {
		t.Errorf("without a launcher: %v, %v", found, err)
	}
}
