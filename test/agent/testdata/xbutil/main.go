// Command xbutil stands in for XRT's tool: it asks the test, at a socket in the root that
// it is installed in, what becomes of a call. It is static, so that it can be run where
// no library is, and hence without the package net.
//
//	it sends its path and its arguments, a line of JSON
//	it gets a line, and opens the file that follows --user
//	it sends the content of that, a line of JSON
//	it gets a line when the card has it
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// socket is where the test listens, in the root.
const socket = "xbutil.sock"

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "the stand-in for xbutil: %v\n", err)
		os.Exit(125)
	}
}

func run() (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	conn, err := dial(filepath.Join(filepath.Dir(self), "../..", socket))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	send, lines := json.NewEncoder(conn), bufio.NewScanner(conn)
	if err := send.Encode(append([]string{self}, os.Args[1:]...)); err != nil {
		return err
	}
	if !lines.Scan() {
		return fmt.Errorf("the test has hung up: %w", lines.Err())
	}
	var content []byte
	if i := slices.Index(os.Args, "--user") + 1; i > 0 && i < len(os.Args) {
		if content, err = os.ReadFile(os.Args[i]); err != nil {
			return err
		}
	}
	if err := send.Encode(content); err != nil {
		return err
	}
	if !lines.Scan() {
		return fmt.Errorf("the test has hung up: %w", lines.Err())
	}
	return nil
}

func dial(path string) (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
