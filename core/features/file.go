package features

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/config"
)

const (
	// fileName is the feature file's. Our temporary files begin with a dot, and
	// Node Feature Discovery leaves those alone.
	fileName = "accelmux"
	// lifetime is how long what the file says holds. It is renewed at half of that,
	// so that labels outlive an agent that ended by half an hour at least, and by
	// an hour at most.
	lifetime = time.Hour
	// lookAt is how often the file is looked at: somebody may have removed it, or
	// set the clock.
	lookAt = time.Minute
	// maxFile is the longest file that Node Feature Discovery reads, in bytes
	// (MaxFeatureFileSize in its source/local).
	maxFile = 64 << 10

	comment = "# What accelmux found on this node. Written anew when that changes.\n"
	expiry  = "# +expiry-time="
)

// File is a feature file of Node Feature Discovery's local source: lines of
// name=value, which expire at the time that a directive names (version 0.14 and
// later). It is mode 0644 and replaced as a whole. One goroutine at a time may use it.
type File struct {
	dir string
	// Disk writes; tests make it fail.
	Disk checkpoint.Writer
	// swept: temporary files of an earlier run are gone.
	swept bool
}

// NewFile is the feature file in a directory, which is made when missing.
func NewFile(dir string) *File { return &File{dir: dir} }

// String implements Target.
func (f *File) String() string { return "file " + f.path() }

// Interval implements Target.
func (f *File) Interval() time.Duration { return lookAt }

// Explain implements Target.
func (f *File) Explain(err error) string {
	return fmt.Sprintf("the features cannot be published for Node Feature Discovery: %v; those published before expire within an hour", err)
}

func (f *File) path() string { return filepath.Join(f.dir, fileName) }

// Current implements Target. A file that says nothing that can be read is none.
func (f *File) Current(context.Context) (map[string]string, bool, error) {
	file, err := os.Open(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, false, err
	}
	values, expires := parse(string(text))
	left := time.Until(expires)
	if left <= 0 {
		values = nil // nobody believes it any more
	}
	return values, left > lifetime/2 && left <= lifetime, nil
}

// parse reads a feature file of ours.
func parse(text string) (map[string]string, time.Time) {
	values, expires := map[string]string{}, time.Time{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if at, ok := strings.CutPrefix(line, expiry); ok {
			expires, _ = time.Parse(time.RFC3339, at) // a broken one has expired
		}
		if name, value, ok := strings.Cut(line, "="); ok && config.IsFeature(name) {
			values[name] = value
		}
	}
	return values, expires
}

// Put implements Target.
func (f *File) Put(_ context.Context, values map[string]string) (map[string]string, []string, error) {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, nil, err
	}
	if !f.swept {
		if _, err := checkpoint.Sweep(f.dir, fileName); err != nil {
			return nil, nil, err
		}
		f.swept = true
	}
	var b strings.Builder
	b.WriteString(comment)
	b.WriteString(expiry + time.Now().Add(lifetime).UTC().Format(time.RFC3339) + "\n")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.WriteString(name + "=" + values[name] + "\n")
	}
	err := f.Disk.Replace(f.path(), []byte(b.String()), 0o644)
	if errors.Is(err, checkpoint.ErrNotDurable) {
		err = nil // it is made anew after a power cut
	}
	return values, nil, err
}
