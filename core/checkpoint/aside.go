package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// MaxQuarantined is how many damaged files [Quarantine] keeps of one path.
const MaxQuarantined = 5

// Quarantine moves a damaged file, or whatever else is at path, aside and returns its new
// path: "<path>.corrupt-<n>", n from 1 to [MaxQuarantined]. Once all are taken, the file there
// that was modified first is replaced. A directory is never replaced: it may contain anything.
//
// A power cut may undo the move. Then the file is found damaged again.
func Quarantine(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("move damaged file aside: %w", err)
	}
	aside, taken, err := quarantineSlot(path)
	if err == nil && taken && info.IsDir() {
		err = os.Remove(aside) // a directory cannot be renamed over a file
	}
	if err == nil {
		err = os.Rename(path, aside)
	}
	if err != nil {
		return "", fmt.Errorf("move damaged file aside: %w", err)
	}
	_ = SyncDir(filepath.Dir(path))
	return aside, nil
}

// quarantineSlot returns the path for the next damaged file, and whether an earlier
// one is there.
func quarantineSlot(path string) (slot string, taken bool, err error) {
	var oldest time.Time
	for n := 1; n <= MaxQuarantined; n++ {
		name := fmt.Sprintf("%s.corrupt-%d", path, n)
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, false, nil
		case err != nil:
			return "", false, err
		case !info.IsDir() && (slot == "" || info.ModTime().Before(oldest)):
			slot, oldest = name, info.ModTime()
		}
	}
	if slot == "" {
		return "", false, fmt.Errorf("%s.corrupt-1 to -%d are directories; remove them", path, MaxQuarantined)
	}
	return slot, true, nil
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
