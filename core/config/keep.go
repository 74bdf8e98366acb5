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

// Keeper stores the last configuration in force on disk, so that an agent that is restarted
// while the file is invalid or missing can use it. Its methods are safe for concurrent use.
type Keeper struct {
	path, source string
	disk         checkpoint.Writer
	log          *slog.Logger
	dirty        chan struct{} // 1 slot

	mu   sync.Mutex
	want []byte
	// problem is why the last write failed; "" after a success.
	problem string
}

// NewKeeper returns a Keeper that stores the configuration of the file source in the file
// path. It does not access the disk.
func NewKeeper(path, source string, log *slog.Logger) *Keeper {
	if absolute, err := filepath.Abs(source); err == nil {
		source = absolute
	}
	return &Keeper{path: path, source: source, log: log, dirty: make(chan struct{}, 1)}
}

// Kept returns the stored content of the configuration file. The error wraps fs.ErrNotExist if
// nothing is stored for that file; otherwise it says why the stored file cannot be read.
func (k *Keeper) Kept() ([]byte, error) {
	payload, err := checkpoint.Read(k.path, keptMagic)
	if err != nil {
		return nil, err
	}
	source, data, _ := bytes.Cut(payload, []byte("\n"))
	if string(source) != strconv.Quote(k.source) {
		return nil, fmt.Errorf("the stored configuration is that of %s: %w", source, fs.ErrNotExist)
	}
	return data, nil
}

// Keep sets the configuration to store. It does not wait for the disk: Run writes.
func (k *Keeper) Keep(data []byte) {
	k.mu.Lock()
	k.want = data
	k.mu.Unlock()
	select {
	case k.dirty <- struct{}{}:
	default: // a write is pending
	}
}

// Run writes the configuration to store until ctx ends. A failed write is tried again.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			select {
			case <-k.dirty:
				_ = k.save() // a last try; save logs the error
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

// save writes the configuration unless the file already has it.
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
		problem = fmt.Sprintf("the configuration in force cannot be stored (%v); until it can, a restart needs a valid configuration file", err)
		k.log.Error("store the configuration in force, trying again", "error", err)
	}
	k.mu.Lock()
	k.problem = problem
	k.mu.Unlock()
	return err
}

// Notes returns the problem, if there is one.
func (k *Keeper) Notes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem == "" {
		return nil
	}
	return []string{k.problem}
}
