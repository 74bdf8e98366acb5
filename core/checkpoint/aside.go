package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Quarantine renames a damaged file, or whatever else is at path, to "<path>.corrupt", and
// returns a clause about that for the operator. The damaged file before is replaced.
//
// A power cut may undo the move. Then the file is found damaged again.
func Quarantine(path string) string {
	aside := path + ".corrupt"
	if err := os.Rename(path, aside); err != nil {
		return fmt.Sprintf("it could not be moved aside (%v)", err)
	}
	_ = SyncDir(filepath.Dir(path))
	return "it was moved to " + aside
}

// Sweep removes the temporary files that a crash left in dir of files whose
// names start with prefix, and returns their names. Call it only while no [Writer]
// writes there. A missing directory has none.
func Sweep(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var swept []string
	var errs []error
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.HasPrefix(name, "."+prefix) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		swept = append(swept, name)
	}
	return swept, errors.Join(errs...)
}
