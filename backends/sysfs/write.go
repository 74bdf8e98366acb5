package sysfs

import (
	"errors"
	"os"
)

// Write writes a text to an existing file, in one call, and returns when the driver has done the
// request. It neither creates nor truncates a file.
func Write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
