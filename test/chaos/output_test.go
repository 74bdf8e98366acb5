package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Verifies that a run whose output nobody reads any more ends at once, says why where it
// still can, and leaves no process and no file; and the same of one that is interrupted.
func TestUnheard(t *testing.T) {
	t.Parallel()
	bin := built.Dir(t)
	for name, c := range map[string]struct {
		leave func(*os.Process, io.Closer) error
		says  string
	}{
		"head":   {func(_ *os.Process, out io.Closer) error { return out.Close() }, "nobody hears any more what is told: write /dev/stdout: broken pipe"},
		"ctrl-C": {func(p *os.Process, _ io.Closer) error { return p.Signal(syscall.SIGINT) }, "interrupt signal received"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Not t.TempDir(), nor any TMPDIR: the sockets in it have paths of 108 bytes at most.
			dir, err := os.MkdirTemp("/tmp", "c")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			var errs strings.Builder
			command := exec.CommandContext(t.Context(), bin+"/chaos", "-bin", bin, "-agent", bin+"/accelmux", "-seed", "7", "-steps", "100000", "-v")
			command.Env, command.Stderr = append(os.Environ(), "TMPDIR="+dir), &errs
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(out); lines.Scan(); {
				// That of the first step: there is a node.
				if strings.HasPrefix(lines.Text(), "    1 ") {
					break
				}
			}
			hardware := hardwareOf(tasks(dir))
			if hardware == "" {
				t.Error("no agent is told of the hardware's directory")
			}
			if err := c.leave(command.Process, out); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, out)
			var exit *exec.ExitError
			if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(errs.String(), c.says) {
				t.Errorf("it ended with %v, and says\n%s", err, &errs)
			}
			w := &world{bound: time.Minute}
			if err := w.await(t.Context(), leakedProcess, "processes are left", func() bool { return len(tasks(dir)) == 0 }); err != nil {
				t.Error(err, tasks(dir))
			}
			if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
				t.Errorf("files are left: %v, %v", left, err)
			}
			if _, err := os.Stat(hardware); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the hardware is left: %v", err)
			}
		})
	}
}

// hardwareOf is the directory that an agent among the processes has the hardware in.
func hardwareOf(all []task) string {
	for _, p := range all {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // gone, perhaps
		args := strings.Split(string(text), "\x00")
		if i := slices.Index(args, "--sysfs"); i >= 0 {
			return filepath.Dir(args[i+1])
		}
	}
	return ""
}

// Verifies that a run ends with either of its streams, but not by a write to a socket that
// the other side has closed, for which the kernel sends the same signal.
func TestHeard(t *testing.T) {
	ctx, out, errs, stop := heard(t.Context(), io.Discard, io.Discard)
	defer stop()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	defer signal.Stop(signals)
	for range 100 {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = syscall.Close(pair[1])
		if _, err := syscall.Write(pair[0], []byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("the error is %v", err)
		}
		_ = syscall.Close(pair[0])
		<-signals
	}
	for _, w := range []io.Writer{out, errs} {
		if _, err := io.WriteString(w, "told"); err != nil {
			t.Error(err)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("the run has ended: %v", context.Cause(ctx))
	}
	for i := range 2 {
		reader, writer := io.Pipe()
		_ = reader.Close()
		streams := []io.Writer{io.Discard, io.Discard}
		streams[i] = writer
		ctx, out, errs, stop := heard(t.Context(), streams[0], streams[1])
		for _, w := range []io.Writer{out, errs} {
			_, _ = io.WriteString(w, "told")
		}
		if err := context.Cause(ctx); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("with stream %d gone the run ends by %v", i, err)
		}
		stop()
	}
}
