package sysroot

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Damage is something that a file of a tree can be made into.
type Damage func(path string) error

// Damages are all kinds of damage, by name, for tests that try each.
var Damages = map[string]Damage{
	"truncated": Truncate, "empty": Empty, "binary": Binary, "loop": Loop, "dangling": Dangling, "fifo": FIFO,
	"huge number": HugeNumber, "endless": Endless, "directory": Directory, "missing": os.RemoveAll,
}

// Truncate cuts a file in the middle of its last number: what is left is a number,
// too, but the wrong one.
func Truncate(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := strings.TrimRight(string(b), "\n")
	if text == "" {
		return nil
	}
	return os.WriteFile(path, []byte(text[:len(text)-1]), 0o644)
}

// Empty leaves nothing in a file.
func Empty(path string) error { return os.Truncate(path, 0) }

// Binary makes a file what no text is.
func Binary(path string) error {
	return os.WriteFile(path, []byte("\x7fELF\x02\x01\x00\xff\xfe\x00 \x80\n"), 0o644)
}

// HugeNumber makes each number of a file one of more than 64 bits.
func HugeNumber(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var text strings.Builder
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) > 0 {
			words[len(words)-1] = "18446744073709551616"
		}
		text.WriteString(strings.Join(words, " ") + "\n")
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// Endless makes a file larger than anything that the kernel has there.
func Endless(path string) error {
	return os.WriteFile(path, []byte(strings.Repeat("0123456789 1\n", 1<<17)), 0o644)
}

// instead removes what is there and makes something else.
func instead(path string, make func() error) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return make()
}

// Loop makes a link to itself.
func Loop(path string) error {
	return instead(path, func() error { return os.Symlink(filepath.Base(path), path) })
}

// Dangling makes a link to nothing.
func Dangling(path string) error {
	return instead(path, func() error { return os.Symlink("../nothing/here", path) })
}

// FIFO makes a pipe, which a careless reader waits at for good.
func FIFO(path string) error { return instead(path, func() error { return unix.Mkfifo(path, 0o600) }) }

// Directory makes a directory.
func Directory(path string) error {
	return instead(path, func() error { return os.Mkdir(path, 0o755) })
}
