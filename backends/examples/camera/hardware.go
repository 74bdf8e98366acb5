package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// write sets an attribute of a camera. The error is fs.ErrNotExist if it has none, or if there is no such camera.
func (b *backend) write(id, attribute, value string) error {
	dirs, err := b.cameras()
	if err != nil {
		return err
	}
	dir, ok := dirs[id]
	if !ok {
		return fmt.Errorf("camera %s: %w", id, fs.ErrNotExist)
	}
	path := filepath.Join(dir, attribute)
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(value), 0)
}
