package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/accelmux/accelmux/backends/sdk"
)

// places has the directory in sysfs of each camera by its ID, for the calls below.
var places sync.Map

func init() {
	extend = append(extend, func(d *sdk.Device, dir string) { places.Store(d.Id, dir) })
}

// write sets an attribute of a camera. The error is an fs.ErrNotExist if there is none.
func write(id, attribute, value string) error {
	dir, ok := places.Load(id)
	if !ok {
		return fmt.Errorf("camera %s: %w", id, fs.ErrNotExist)
	}
	file, err := os.OpenFile(filepath.Join(dir.(string), attribute), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
