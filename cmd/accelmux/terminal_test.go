package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// pty returns a new terminal of 50 by 4 characters, and its other end; ptmx(4).
func pty(t *testing.T) (terminal, other *os.File) {
	t.Helper()
	open := func(path string) *os.File {
		file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	other = open("/dev/ptmx")
	fd := int(other.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal = open(fmt.Sprint("/dev/pts/", number))
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 50, Row: 4}); err != nil {
		t.Fatal(err)
	}
	return terminal, other
}

func mode(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

// readTo reads until the text ends with want.
func readTo(t *testing.T, from io.Reader, want string) (text string) {
	t.Helper()
	var buffer [1]byte
	for !strings.HasSuffix(text, want) {
		if _, err := from.Read(buffer[:]); err != nil {
			t.Fatalf("%v after %q", err, text)
		}
		text += string(buffer[:])
	}
	return text
}

// Verifies that -w shows on a terminal what fits, with what is wrong in red, and gives the terminal back as it
// was when q is pressed, after Ctrl-C and after a panic.
func TestWatchOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for name, end := range map[string]func(keyboard io.Writer, interrupt func()){
		"q":      func(keyboard io.Writer, _ func()) { _, _ = io.WriteString(keyboard, "xq") },
		"Ctrl-C": func(_ io.Writer, interrupt func()) { interrupt() },
		"panic":  nil,
	} {
		terminal, other := pty(t)
		before := mode(t, terminal)
		ctx, cancel := context.WithCancel(t.Context())
		shown := 0
		command, screen := withWatch(&cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
			if shown++; end == nil && shown == 2 {
				panic("a defect")
			}
			fmt.Fprint(cmd.OutOrStdout(), "unhealthy\n", strings.Repeat("w", 60), "\nthird\nfourth\nfifth\n")
			return nil
		}})
		command.SetIn(terminal)
		command.SetOut(terminal)
		command.SetArgs([]string{"-w", "--every", "1s"})
		ended := make(chan error)
		go func() {
			defer func() {
				if e := recover(); e != nil {
					ended <- errors.New(fmt.Sprint(e))
				}
			}()
			ended <- command.ExecuteContext(ctx)
		}()
		text := readTo(t, other, "higher")
		want := enterScreen + clearScreen + "\x1b[31munhealthy\x1b[0m\r\n" + strings.Repeat("w", 49) + "…\r\nthird\r\nand 2 more lines: make the window higher"
		if text != want || screen.width != 50 {
			t.Errorf("%s: showed %q, want %q", name, text, want)
		}
		if now := mode(t, terminal); now.Lflag&unix.ECHO != 0 || now.Lflag&unix.ISIG == 0 {
			t.Errorf("%s: the mode is %+v: typed keys are shown, or Ctrl-C is no signal", name, now)
		}
		if end != nil {
			end(other, cancel)
		}
		if err := <-ended; (err != nil) != (end == nil) {
			t.Errorf("%s: %v", name, err)
		}
		readTo(t, other, leaveScreen)
		if now := mode(t, terminal); now != before {
			t.Errorf("%s: the mode is %+v, and was %+v", name, now, before)
		}
		cancel()
	}
}

// Verifies that a terminal whose size changes shows at once what fits then.
func TestResize(t *testing.T) {
	terminal, other := pty(t)
	command, _ := withWatch(&cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Fprint(cmd.OutOrStdout(), strings.Repeat("w", 60))
		return nil
	}})
	command.SetIn(terminal)
	command.SetOut(terminal)
	command.SetArgs([]string{"-w", "--every", "1h"})
	ended := make(chan error)
	go func() { ended <- command.ExecuteContext(t.Context()) }()
	readTo(t, other, strings.Repeat("w", 49)+"…")
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 20, Row: 4}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil { // as the kernel does where this is the controlling terminal
		t.Fatal(err)
	}
	readTo(t, other, clearScreen+strings.Repeat("w", 19)+"…")
	if _, err := io.WriteString(other, "q"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Verifies that colours are for terminals, and for people who want them.
func TestColour(t *testing.T) {
	terminal, _ := pty(t)
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if !hasColour(terminal) || hasColour(file) || hasColour(new(strings.Builder)) {
		t.Error("colours are not for terminals alone")
	}
	t.Setenv("TERM", "dumb")
	if hasColour(terminal) {
		t.Error("a dumb terminal has colours")
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	if hasColour(terminal) {
		t.Error("NO_COLOR has no effect")
	}
}
