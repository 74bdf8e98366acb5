package main

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// clearScreen moves to the first line and clears the screen; ECMA-48.
	clearScreen = "\x1b[H\x1b[2J"
	// enterScreen switches to the alternate screen and hides the cursor, and leaveScreen undoes that; xterm's
	// control sequences.
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// terminalSize returns the number of characters in a line and of lines; 0 if stream is no terminal.
func terminalSize(stream any) (width, height int) {
	if !isTerminal(stream) {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(stream.(*os.File).Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24 // a serial console does not know its size
	}
	return int(size.Col), int(size.Row)
}

// hasColour reports whether colours are seen, and wanted: NO_COLOR is that of no-color.org.
func hasColour(out any) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// paint returns text with what is wrong in red, if out has colours.
func paint(text string, out any) string {
	if !hasColour(out) {
		return text
	}
	const red, plain = "\x1b[31m", "\x1b[0m"
	return strings.NewReplacer("unhealthy", red+"unhealthy"+plain, "problems:", red+"problems:"+plain).Replace(text)
}

// openScreen takes the whole screen of the terminal out. When q is pressed on in, if that is a terminal, quit is
// closed. restore gives the screen back and ends the reading of keys; call it once.
func openScreen(in io.Reader, out io.Writer) (quit <-chan struct{}, restore func(), err error) {
	pressed := make(chan struct{})
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return nil, nil, err
	}
	leave := func() { _, _ = io.WriteString(out, leaveScreen) } // the terminal may be gone
	if !isTerminal(in) {
		return pressed, leave, nil
	}
	keyboard := in.(*os.File)
	fd := int(keyboard.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		leave()
		return nil, nil, err
	}
	// Keys are read as they are pressed; Ctrl-C stays a signal, and Ctrl-Z is off, as it would leave the shell
	// with this mode.
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 0, 1 // a read returns after 0.1 s without a key
	keys.Cc[unix.VSUSP] = 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &keys); err != nil {
		leave()
		return nil, nil, err
	}
	ended, reading := make(chan struct{}), sync.WaitGroup{}
	reading.Go(func() { awaitQ(keyboard, pressed, ended) })
	return pressed, func() {
		close(ended)
		reading.Wait()
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, before)
		leave()
	}, nil
}

// awaitQ reads keys until q, which closes pressed, or until ended is closed.
func awaitQ(keyboard io.Reader, pressed chan<- struct{}, ended <-chan struct{}) {
	var key [1]byte
	for {
		select {
		case <-ended:
			return
		default:
		}
		n, err := keyboard.Read(key[:])
		if n == 1 && key[0] == 'q' {
			close(pressed)
			return
		}
		if err != nil && err != io.EOF { // EOF: no key within the time
			return
		}
	}
}
