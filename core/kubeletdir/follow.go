package kubeletdir

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/checkpoint"
)

// Intervals of Follow while kubelet does not answer, and while it does.
const (
	poll     = time.Second
	calmPoll = time.Minute
)

// Root is the root directory of a kubelet whose directory is not configured.
type Root struct {
	// Procfs and Usual are those of [Find].
	Procfs, Usual string
	// File stores the directory for the next start, which may be before kubelet's: then nothing else
	// shows it.
	File string
	Log  *slog.Logger
}

// Dir returns the root directory of the running kubelet; without one that of the last one, or the
// usual one.
func (r Root) Dir(ctx context.Context) string {
	if found := Find(ctx, r.Procfs, r.Usual); found != "" {
		return found
	}
	if stored := r.stored(); stored != "" {
		return stored
	}
	return r.Usual
}

// Follow returns an error as soon as kubelet has another root directory than dir, which is from Dir, and
// nil when ctx ends.
func (r Root) Follow(ctx context.Context, dir string) error {
	for {
		pause, found := calmPoll, dir
		if !answers(ctx, dir) {
			pause, found = poll, Find(ctx, r.Procfs, r.Usual)
		}
		if found != "" {
			r.store(found)
		}
		if found != "" && found != dir {
			return fmt.Errorf("kubelet's root directory is %s, and this agent uses %s: start it again", found, dir)
		}
		if !backoff.Sleep(ctx, pause) {
			return nil
		}
	}
}

// stored returns what the file has; "" if that is no path.
func (r Root) stored() string {
	text, err := os.ReadFile(r.File)
	if dir := strings.TrimSpace(string(text)); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	return ""
}

func (r Root) store(dir string) {
	if r.stored() == dir {
		return
	}
	if err := (checkpoint.Writer{}).Replace(r.File, []byte(dir+"\n"), 0o600); err != nil {
		r.Log.Warn("kubelet's root directory is not stored: the next start may be with another one", "dir", dir, "error", err)
	}
}
