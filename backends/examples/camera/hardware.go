package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/accelmux/accelmux/backends/sdk"
)

// places has the directory in sysfs of each camera by its ID, for calls that get IDs.
var places sync.Map

func init() {
	extend = append(extend, func(d *sdk.Device, dir string) { places.Store(d.Id, dir) })
}

// write sets an attribute of a camera. The error is fs.ErrNotExist if it has none.
func write(id, attribute, value string) error {
	dir, ok := places.Load(id)
	if !ok {
		return fmt.Errorf("camera %s: %w", id, fs.ErrNotExist)
	}
	path := filepath.Join(dir.(string), attribute)
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(value), 0)
}
