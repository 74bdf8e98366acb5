package fpgadevice

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/trap"
)

// childEnv makes the test binary a program that uses its arguments' nodes.
const childEnv = "FPGADEVICE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	run := child
	if os.Getenv(childEnv) == "write" {
		run = writer
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// child does what a backend does, with the kernel's ioctls: it resets a port and asks
// what it has, and programs it with a file that is mapped.
func child(args []string) error {
	port, err := ioctl.Open(args[0])
	if err != nil {
		return err
	}
	fme, err := ioctl.Open(args[1])
	if err != nil {
		return err
	}
	file, err := os.Open(args[2])
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	payload, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	if err := ioctl.ResetPort(port, ioctl.DFL); err != nil {
		return err
	}
	what, err := ioctl.PortInfo(port, ioctl.DFL)
	if err != nil {
		return err
	}
	// Signals that have a handler interrupt what can be interrupted.
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1)
	fmt.Printf("%s: %d regions\n", os.Args[0], what.Regions)
	if err := ioctl.ProgramPort(fme, ioctl.DFL, 0, payload); err != nil {
		return err
	}
	null, err := ioctl.Open(os.DevNull)
	if err != nil {
		return err
	}
	if err := ioctl.ResetPort(null, ioctl.DFL); !errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("/dev/null: %w", err)
	}
	return errors.Join(port.Close(), fme.Close(), null.Close(), unix.Munmap(payload), file.Close())
}

// wrapped is a machine, and a file to program it with.
type wrapped struct {
	*testing.T
	tree    *fpgatree.Tree
	device  *Device
	payload []byte
	file    string
}

func newWrapped(t *testing.T, size int) *wrapped {
	t.Helper()
	SkipWithoutFilter(t)
	w := &wrapped{T: t}
	w.tree, w.device = machine(t, fpgatree.NewN3000())
	w.payload = make([]byte, size)
	for i := range w.payload {
		w.payload[i] = byte(i * 7 >> (i & 7))
	}
	w.device.Know(Bitstream{Interface: w.tree.Machine().Cards[0].Interface, AFU: crypto, Payload: w.payload})
	w.file = filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(w.file, w.payload, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// command is the child, as a program wants it that is named prog.
func (w *wrapped) command(program string) *exec.Cmd {
	dev := w.tree.Devfs()
	cmd := exec.CommandContext(w.Context(), program, filepath.Join(dev, "dfl-port.0"), filepath.Join(dev, "dfl-fme.0"), w.file)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	return cmd
}

func (w *wrapped) self() string {
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	return self
}

// wantProgrammed fails if the card did not get the payload, once, from a process.
func (w *wrapped) wantProgrammed(pid int) {
	w.Helper()
	calls := w.device.Calls()
	if len(calls) != 3 || calls[0].Request != Reset || calls[1].Request != Info || calls[2].Request != Program {
		w.Fatalf("calls %+v", calls)
	}
	c := calls[2]
	if c.Size != len(w.payload) || c.Sum != sum(w.payload) || !c.Done || c.Errno != 0 || pid != 0 && c.PID != pid {
		w.Errorf("call %+v, want that of process %d", c, pid)
	}
	if afu := read(w, w.tree, w.tree.Machine().Cards[0].Address, "port0", "afu_id"); afu != crypto {
		w.Errorf("AFU %s", afu)
	}
}

// Verifies that a program's own ioctls reach the device with 64 MiB of mapped memory,
// byte by byte, and that those of other files reach the kernel.
func TestWrap(t *testing.T) {
	w := newWrapped(t, 64<<20)
	cmd := w.command(w.self())
	if err := w.device.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != w.self()+": 2 regions\n" {
		t.Fatalf("%v: %s", err, out)
	}
	w.wantProgrammed(cmd.Process.Pid)
}

// Verifies that a program in a directory is wrapped, with its name, its environment and
// its children, and keeps its process ID.
func TestProgram(t *testing.T) {
	w := newWrapped(t, 1<<20)
	dir := t.TempDir()
	real, wrapper := filepath.Join(dir, "it's real"), filepath.Join(dir, "wrapper")
	text := "#!/bin/sh\nenv | grep FPGADEVICE >&2\necho $$ $0\n" + quoted(w.self()) + ` "$@"` + "\n"
	if err := os.WriteFile(real, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.device.Program(wrapper, real); err != nil {
		t.Fatal(err)
	}
	cmd := w.command(wrapper)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if want := fmt.Sprintf("%d %s\n%s: 2 regions\n", cmd.Process.Pid, real, w.self()); err != nil || string(out) != want || errs.String() != childEnv+"=1\n" {
		t.Fatalf("%v: %s, want %s; %s", err, out, want, errs.String())
	}
	w.wantProgrammed(0)
	if err := w.device.Program(wrapper, w.self()); err != nil {
		t.Fatal(err)
	}
	if out, err := w.command(wrapper).CombinedOutput(); err != nil || string(out) != wrapper+": 2 regions\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// Verifies that signals do not end a wait, as they do not in the drivers; and that a
// program that is killed while it waits is gone, and leaves the card to go on.
func TestSignals(t *testing.T) {
	for _, kill := range []bool{false, true} {
		w := newWrapped(t, 1<<20)
		begun, hold := make(chan struct{}), make(chan struct{})
		w.device.Next(Answer{Begun: begun, Hold: hold})
		cmd := w.command(w.self())
		if err := w.device.Wrap(cmd); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-begun
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			t.Fatal(threads, err)
		}
		for _, dir := range threads {
			thread, err := strconv.Atoi(filepath.Base(dir))
			if err := errors.Join(err, unix.Tgkill(cmd.Process.Pid, thread, unix.SIGUSR1)); err != nil {
				t.Error(err)
			}
		}
		if kill {
			_ = cmd.Process.Kill()
			_, _ = io.Copy(io.Discard, out)
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
				t.Error(err)
			}
		}
		close(hold)
		if !kill {
			text, _ := io.ReadAll(out)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			w.wantProgrammed(cmd.Process.Pid)
		}
		if n := len(w.device.Calls(Program)); n != 1 {
			t.Errorf("kill %t: %d programmings", kill, n)
		}
	}
}

// Verifies what a program sees of a payload that became shorter, of an error, and of a
// device that is closed.
func TestWrappedErrors(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*wrapped)
		want    string
	}{
		"error": {func(w *wrapped) { w.device.Next(Answer{Errno: unix.EBUSY}) }, "the card is being programmed by another program"},
		"shorter": {func(w *wrapped) {
			hold := make(chan struct{})
			begun := make(chan struct{})
			w.device.NextReset(Answer{Begun: begun, Hold: hold})
			go func() {
				<-begun
				if err := os.Truncate(w.file, 1); err != nil {
					w.Error(err)
				}
				close(hold)
			}()
		}, "its file was made shorter"},
		"another of its name": {func(w *wrapped) {
			hold := make(chan struct{})
			begun := make(chan struct{})
			w.device.NextReset(Answer{Begun: begun, Hold: hold})
			go func() {
				<-begun
				if err := errors.Join(w.tree.Unplug(0), w.tree.Plug(0)); err != nil {
					w.Error(err)
				}
				close(hold)
			}()
		}, "PORT_GET_INFO"},
		"gone": {func(w *wrapped) { w.device.NextReset(Answer{Gone: true}) }, "PORT_RESET"},
		"closed": {func(w *wrapped) {
			begun := make(chan struct{})
			w.device.NextReset(Answer{Begun: begun, Hold: make(chan struct{})})
			go func() {
				<-begun
				if err := w.device.Close(); err != nil {
					w.Error(err)
				}
			}()
		}, "has gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWrapped(t, 1<<20)
			c.prepare(w)
			cmd := w.command(w.self())
			if err := w.device.Wrap(cmd); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
		})
	}
}

// Verifies that what cannot be run says so, and with a status of the wrapper's own.
func TestWrapperFails(t *testing.T) {
	w := newWrapped(t, 1)
	for _, c := range []struct {
		cmd  *exec.Cmd
		want string
	}{
		{exec.CommandContext(t.Context(), filepath.Join(t.TempDir(), "none")), "no such file"},
		{exec.CommandContext(t.Context(), "/bin/true"), "connect"},
	} {
		if err := w.device.Wrap(c.cmd); err != nil {
			t.Fatal(err)
		}
		if c.want == "connect" {
			c.cmd.Env = append(c.cmd.Env, trap.SocketEnv+"=/nonexistent")
		}
		out, err := c.cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != trap.Failed || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %s, want %q", err, out, c.want)
		}
	}
	cmd := exec.CommandContext(t.Context(), "no-such-program-anywhere")
	if err := w.device.Wrap(cmd); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}

// quoted is a word of a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
