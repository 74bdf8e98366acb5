package cdi_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that a removal of the directory, or of what is in it, while a spec is written costs
// nothing: it is written again at once. A removal that goes on is an error.
func TestRemovedWhileItIsWritten(t *testing.T) {
	for what, remove := range map[string]func(dir string) error{"the directory": os.RemoveAll, "its files": removeFiles} {
		for _, op := range []checkpoint.Op{checkpoint.OpCreate, checkpoint.OpRename} {
			t.Run(fmt.Sprintf("%s before %s", what, op), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "cdi")
				removals := 0
				s := openWith(t, cdi.Options{Dir: dir, Disk: checkpoint.Writer{Before: func(now checkpoint.Op, _ string) error {
					if now != op || removals == 0 {
						return nil
					}
					removals--
					return remove(dir)
				}}})
				for _, removals = range []int{0, 2} {
					id := fmt.Sprint("after-", removals)
					names := s.Publish([]*inventory.Device{device("gpu", "1"), device(id, "2")}, nobody)
					if got := env(t, dir, qualified(t, names, "gpu"), qualified(t, names, id)); got != "VALUE=2" || !names.RetryAt().IsZero() {
						t.Errorf("%s: env %q, tried again at %v", id, got, names.RetryAt())
					}
				}
				if what == "its files" && op == checkpoint.OpCreate {
					return // none is there yet
				}
				const many = 1000
				removals = many
				names := s.Publish([]*inventory.Device{device("another", "1")}, nobody)
				if _, err := names.Qualified(key("another")); !errors.Is(err, fs.ErrNotExist) || removals < many-20 {
					t.Errorf("error %v after %d removals", err, many-removals)
				}
			})
		}
	}
}

func removeFiles(dir string) error {
	files, err := os.ReadDir(dir)
	for _, file := range files {
		err = errors.Join(err, os.Remove(filepath.Join(dir, file.Name())))
	}
	return err
}
