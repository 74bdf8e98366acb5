package sysroot

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// maxFile is the size that a captured file may have.
const maxFile = 4 << 20

// Unpack calls entry for each entry of a .tar.gz, with the content of a file.
func Unpack(archive string, entry func(h *tar.Header, content string)) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("read the capture %s: %w", archive, err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(io.LimitReader(r, maxFile))
		}
		if err != nil {
			return fmt.Errorf("read the capture %s: %w", archive, err)
		}
		entry(h, string(content))
	}
}

// Captured is the path of a capture of a real machine, such as
// "amd/topology-parsing.tar.gz", or of a directory of them; testdata/README.md lists them.
// The test, which is one of this module, fails if there is none.
func Captured(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "test", "sysroot", "testdata", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			tb.Fatalf("there is no capture %s", path)
		}
	}
}
