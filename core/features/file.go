package features

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
)

const (
	// fileName is the name of the feature file. Temporary files begin with a dot: Node Feature
	// Discovery ignores these.
	fileName = "accelmux"
	// lifetime is how long the file's features are valid. The file is renewed at half of that:
	// labels stay for half an hour to an hour after the agent ended.
	lifetime = time.Hour
	// maxFile is the longest file that Node Feature Discovery reads, in bytes
	// (MaxFeatureFileSize in its source/local).
	maxFile = 64 << 10

	comment = "# Features of this node's accelerators, written by accelmux. Changes are overwritten.\n"
	expiry  = "# +expiry-time="
)

// file is a feature file of Node Feature Discovery's local source: lines of name=value,
// which expire at the time that a directive names (version 0.14 and later). It is mode
// 0644 and replaced as a whole. One goroutine at a time may use it.
type file struct {
	dir  string
	disk checkpoint.Writer
	// swept is set once temporary files of an earlier run are removed.
	swept bool
}

func (f *file) path() string { return filepath.Join(f.dir, fileName) }

// read returns the features in the file, unless they have expired. renew reports whether the
// file must be written even if they are correct. A missing file, or anything else, has no features.
func (f *file) read() (values map[string]string, renew bool, err error) {
	in, err := checkpoint.Open(f.path(), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, checkpoint.ErrIrregular) { // what is there is replaced
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err != nil {
		return nil, false, err
	}
	values, expires := parse(string(text))
	left := time.Until(expires)
	if left <= 0 {
		values = nil
	}
	return values, left <= lifetime/2 || left > lifetime, nil
}

// parse reads the text of a feature file that this package wrote.
func parse(text string) (map[string]string, time.Time) {
	values, expires := map[string]string{}, time.Time{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if at, ok := strings.CutPrefix(line, expiry); ok {
			expires, _ = time.Parse(time.RFC3339, at) // an invalid time has expired
		}
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			values[name] = value
		}
	}
	return values, expires
}

// write replaces the file.
func (f *file) write(values map[string]string) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	if !f.swept {
		if _, err := checkpoint.Sweep(f.dir, fileName); err != nil {
			return err
		}
		f.swept = true
	}
	var b strings.Builder
	b.WriteString(comment)
	b.WriteString(expiry + time.Now().Add(lifetime).UTC().Format(time.RFC3339) + "\n")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.WriteString(name + "=" + values[name] + "\n")
	}
	err := f.disk.Replace(f.path(), []byte(b.String()), 0o644)
	if errors.Is(err, checkpoint.ErrNotDurable) {
		err = nil // the file need not survive a power cut: it is written at the next start
	}
	return err
}
