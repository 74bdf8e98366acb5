package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/checkpoint"
)

// keptMagic is the kind and version of the file that a Keeper writes. Its payload
// is a line with the quoted path of the configuration file, and that file's bytes.
const keptMagic = "accelmux-configuration/1"

// The pauses between writes that fail.
const minKeepPause, maxKeepPause = time.Second, time.Minute

// Keeper keeps the configuration that was in force last over restarts, so that an
// agent which is restarted while the file is broken or missing has something to
// run. Its methods are safe for concurrent use.
type Keeper struct {
	path, source string
	disk         checkpoint.Writer
	log          *slog.Logger
	dirty        chan struct{} // 1 slot

	mu   sync.Mutex
	want []byte
	// problem is why the last write failed; "" if it did not.
	problem string
}

// NewKeeper makes a Keeper that keeps, in the file at path, the configuration of
// the file at source. It touches nothing on disk.
func NewKeeper(path, source string, log *slog.Logger) *Keeper {
	if absolute, err := filepath.Abs(source); err == nil {
		source = absolute
	}
	return &Keeper{path: path, source: source, log: log, dirty: make(chan struct{}, 1)}
}

// Kept is what the configuration file held when it was last in force. The error
// is fs.ErrNotExist if nothing is known of that file, or names what is wrong with
// the file that was kept.
func (k *Keeper) Kept() ([]byte, error) {
	payload, err := checkpoint.Read(k.path, keptMagic)
	if err != nil {
		return nil, err
	}
	source, data, _ := bytes.Cut(payload, []byte("\n"))
	if string(source) != strconv.Quote(k.source) {
		return nil, fmt.Errorf("what is kept is of %s: %w", source, fs.ErrNotExist)
	}
	return data, nil
}

// Keep notes what is in force now. It does not wait for the disk, which Run writes
// to.
func (k *Keeper) Keep(data []byte) {
	k.mu.Lock()
	k.want = data
	k.mu.Unlock()
	select {
	case k.dirty <- struct{}{}:
	default: // it is
	}
}

// Run writes what is to be kept until ctx ends. A disk that fails is tried again.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			select {
			case <-k.dirty:
				_ = k.save() // the last chance; it has logged
			default:
			}
			return nil
		case <-k.dirty:
		}
		pauses := backoff.New(minKeepPause, maxKeepPause)
		for k.save() != nil {
			if !backoff.Sleep(ctx, pauses.Step()) {
				return nil
			}
		}
	}
}

// save writes, unless the file has it.
func (k *Keeper) save() error {
	k.mu.Lock()
	want := k.want
	k.mu.Unlock()
	if have, err := k.Kept(); err == nil && bytes.Equal(have, want) {
		return nil
	}
	err := k.disk.Write(k.path, keptMagic, append(strconv.AppendQuote(nil, k.source), append([]byte("\n"), want...)...))
	problem := ""
	if err != nil && !errors.Is(err, checkpoint.ErrNotDurable) {
		problem = fmt.Sprintf("the configuration in force cannot be kept for a restart (%v); until it can, a restart needs a good configuration file", err)
		k.log.Error("keep the configuration in force, trying again", "error", err)
	}
	k.mu.Lock()
	k.problem = problem
	k.mu.Unlock()
	return err
}

// Notes are sentences about what is wrong.
func (k *Keeper) Notes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem == "" {
		return nil
	}
	return []string{k.problem}
}
