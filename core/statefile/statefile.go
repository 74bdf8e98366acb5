package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MaxSize is the most bytes that [Read] accepts, header included.
const MaxSize = 64 << 20

// tempSuffix ends the name of every file that is not in place yet. Container
// runtimes and our own loaders skip it.
const tempSuffix = ".tmp"

// Errors that a caller decides by.
var (
	// ErrCorrupt says that a file is there but is not what Write wrote.
	ErrCorrupt = errors.New("corrupt state file")
	// ErrNotDurable says that the new content is in place and visible, but may
	// not survive a power cut: its directory could not be synced.
	ErrNotDurable = errors.New("not durable")
)

// Op is a step of [Writer.Replace].
type Op string

// The steps, in order.
const (
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpRename  Op = "rename"
	OpSyncDir Op = "sync directory"
)

// Writer writes files durably. The zero value is ready to use, and safe for
// concurrent use on different paths.
type Writer struct {
	// Before, if set, is called before each step with the path that is being
	// replaced; an error makes the step fail as if the disk had. It is for tests
	// of full disks and crashes.
	Before func(op Op, path string) error
}

// Replace puts data at path, with exactly the permissions perm, whatever the
// umask: into a temporary file beside it (".<name>.<random>.tmp"), synced, then
// renamed, then the directory synced. A reader sees the old content or the new,
// never a part. On an error the old file is untouched and the temporary one
// removed, except with [ErrNotDurable], where the new content is in place. The
// directory must exist.
func (w Writer) Replace(path string, data []byte, perm fs.FileMode) error {
	temp, err := w.stage(path, data, perm)
	if err == nil {
		if err = w.step(OpRename, path); err == nil {
			err = os.Rename(temp, path)
		}
	}
	if err != nil {
		if temp != "" {
			_ = os.Remove(temp)
		}
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := w.step(OpSyncDir, path); err != nil {
		return fmt.Errorf("replace %s: %w: %w", path, ErrNotDurable, err)
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("replace %s: %w: %w", path, ErrNotDurable, err)
	}
	return nil
}

// stage writes the temporary file. Its name is returned even with an error, as
// long as it exists.
func (w Writer) stage(path string, data []byte, perm fs.FileMode) (name string, err error) {
	if err := w.step(OpCreate, path); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+tempSuffix)
	if err != nil {
		return "", err
	}
	name = f.Name()
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if err := w.step(OpWrite, path); err != nil {
		return name, err
	}
	if _, err := f.Write(data); err != nil {
		return name, err
	}
	if err := f.Chmod(perm); err != nil {
		return name, err
	}
	if err := w.step(OpSync, path); err != nil {
		return name, err
	}
	return name, f.Sync()
}

func (w Writer) step(op Op, path string) error {
	if w.Before == nil {
		return nil
	}
	if err := w.Before(op, path); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Write replaces path by a header line, "<magic> sha256:<hex of the payload>",
// and the payload, mode 0600. A directory that is missing is created, mode 0700.
// Magic names the kind and version of the file and has no white space.
func (w Writer) Write(path, magic string, payload []byte) error {
	if magic == "" || strings.ContainsAny(magic, " \t\r\n") {
		return fmt.Errorf("write %s: %q cannot be the magic of a state file", path, magic)
	}
	head := header(magic, payload)
	if len(head)+len(payload) > MaxSize {
		return fmt.Errorf("write %s: %d bytes are more than the %d that can be read back", path, len(payload), MaxSize)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return w.Replace(path, append(head, payload...), 0o600)
}

// Replace is [Writer.Replace] of the zero Writer.
func Replace(path string, data []byte, perm fs.FileMode) error {
	return Writer{}.Replace(path, data, perm)
}

// Write is [Writer.Write] of the zero Writer.
func Write(path, magic string, payload []byte) error {
	return Writer{}.Write(path, magic, payload)
}

// Read returns the payload that Write put at path. The error is [fs.ErrNotExist]
// if there is no file, and [ErrCorrupt] if it is damaged, of another kind or
// version, not a regular file, or larger than [MaxSize].
func Read(path, magic string) ([]byte, error) {
	// A directory or a fifo at that place must not make us hang or fail oddly.
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: %w: not a regular file", path, ErrCorrupt)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	payload, err := parse(data, magic)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return payload, nil
}

func parse(data []byte, magic string) ([]byte, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, MaxSize)
	}
	line, payload, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%w: no header", ErrCorrupt)
	}
	found, _, _ := strings.Cut(string(line), " ")
	if found != magic {
		return nil, fmt.Errorf("%w: it starts with %.40q, not with %q", ErrCorrupt, found, magic)
	}
	if !bytes.Equal(data[:len(line)+1], header(magic, payload)) {
		return nil, fmt.Errorf("%w: the checksum does not match", ErrCorrupt)
	}
	return payload, nil
}

func header(magic string, payload []byte) []byte {
	sum := sha256.Sum256(payload)
	return []byte(magic + " sha256:" + hex.EncodeToString(sum[:]) + "\n")
}

// Quarantine moves a damaged file out of the way, to "<path>.corrupt", for
// somebody to look at; an earlier one there is replaced, so that no more than
// one is ever kept. It returns the new place.
func Quarantine(path string) (string, error) {
	aside := path + ".corrupt"
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("move damaged file aside: %w", err)
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return aside, fmt.Errorf("move damaged file aside: %w", err)
	}
	return aside, nil
}

// Sweep removes the temporary files that a crash left in dir of files whose
// names start with prefix, and returns their names. Call it only while nobody
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

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
