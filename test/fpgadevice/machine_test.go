package fpgadevice

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/programs"
)

// Verifies that the program for other modules makes a machine, on which a program that
// it wraps does what one does that a test wraps; and what it answers.
func TestMachineProgram(t *testing.T) {
	SkipWithoutFilter(t)
	dir := t.TempDir()
	program, wrapper, file := filepath.Join(dir, "fpgamachine"), filepath.Join(dir, "backend"), filepath.Join(dir, "x.gbs")
	programs.Build(t, program, "./fpgamachine")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := Bitstream{Interface: fpgatree.NewN3000().Cards[0].Interface, AFU: crypto, Payload: []byte("a payload of some bytes")}
	payload, root := filepath.Join(dir, "payload"), filepath.Join(dir, "tree")
	if err := errors.Join(os.WriteFile(payload, b.Payload, 0o600), os.Mkdir(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	machine := exec.CommandContext(t.Context(), program, "-machine", "n3000", root)
	machine.Stderr = os.Stderr
	in, err := machine.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := machine.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	if !answers.Scan() || answers.Text() != "ok" {
		t.Fatalf("it begins with %q", answers.Text())
	}
	say := func(line, want string) {
		t.Helper()
		_, err := fmt.Fprintln(in, line)
		if err != nil || !answers.Scan() || !strings.Contains(answers.Text(), want) {
			t.Errorf("%s: %q, %v, want %q", line, answers.Text(), err, want)
		}
	}
	use := func() error {
		cmd := exec.CommandContext(t.Context(), wrapper, filepath.Join(root, "dev/dfl-port.0"), filepath.Join(root, "dev/dfl-fme.0"), payload)
		cmd.Env = append(os.Environ(), childEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	say("make "+file+" "+b.Interface+" "+b.AFU, "ok")
	if made, err := ReadGBS(file); err != nil || made.Interface != b.Interface || made.AFU != b.AFU || len(made.Payload) == 0 {
		t.Errorf("it makes the bitstream %+v, %v", made, err)
	}
	if err := os.WriteFile(file, b.GBS(), 0o600); err != nil {
		t.Fatal(err)
	}
	say("know "+file, "ok")
	say("wrap "+self+" "+wrapper, "ok")
	say("calls", "ok info 0 program 0 reset 0")
	if err := use(); err != nil {
		t.Error(err)
	}
	say("calls", "ok info 1 program 1 reset 1")
	say("fail EBUSY", "ok")
	if err := use(); err == nil || !strings.Contains(err.Error(), "by another program") {
		t.Error(err)
	}
	say("register 0000:05:00.0 port0/errors 0x2", "ok")
	say("unplug 0", "ok")
	say("unplug 0", "not plugged in")
	if err := use(); err == nil || !strings.Contains(err.Error(), "no such node") {
		t.Error(err)
	}
	say("plug 0", "ok")
	say("reload 0", "ok")
	say("fail EWHAT", "no error")
	say("know "+payload, "no .gbs")
	say("reload x", "no number")
	say("jump 1", "no change")
	if err := errors.Join(in.Close(), machine.Wait()); err != nil {
		t.Error(err)
	}
}
