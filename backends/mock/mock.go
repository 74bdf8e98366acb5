package mock

import (
	"context"
	_ "embed" // manifest.yaml
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/sdk"
)

//go:embed manifest.yaml
var manifest string

// Backend is the mock backend. Make it with [New].
type Backend struct {
	exit    func(code int)
	started time.Time

	mu     sync.Mutex
	out    *sdk.Reporter // the loop's; nil before it begins
	cfg    *config
	play   player
	file   loadedFile
	counts map[string]counts
	// messages are those of the last Prepare, by device.
	messages map[string]string
	// made are the potential partitions that Prepare made.
	made *made.Record
	// cleared holds the faults that a reset took away, until the scenario has
	// another one for the device.
	cleared map[string]fault
	version int // grows when made, cleared or the file's problem changes
}

// loadedFile is what was last seen of the scenario file.
type loadedFile struct {
	path    string
	read    bool
	content string
	invalid string // why the content is no scenario
	problem string // that, or why the file could not be read
}

// The abilities of the mock.
var (
	_ sdk.Backend    = (*Backend)(nil)
	_ sdk.Configurer = (*Backend)(nil)
	_ sdk.Preparer   = (*Backend)(nil)
	_ sdk.Releaser   = (*Backend)(nil)
	_ sdk.Resetter   = (*Backend)(nil)
	_ sdk.Sampler    = (*Backend)(nil)
)

// New returns a mock backend. A scenario's crash calls exit, which should end
// the process: os.Exit.
func New(exit func(code int)) *Backend {
	return &Backend{
		exit:     exit,
		started:  time.Now(),
		cfg:      &config{},
		play:     player{scenario: &scenario{}},
		counts:   map[string]counts{},
		messages: map[string]string{},
		made:     &made.Record{},
		cleared:  map[string]fault{},
	}
}

// Identity implements [sdk.Backend].
func (*Backend) Identity() (name, version string) { return sdk.Identity(manifest) }

// Configure implements [sdk.Configurer].
func (b *Backend) Configure(_ context.Context, data json.RawMessage, _ sdk.HostPaths) error {
	cfg, err := parseSettings(data)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg.stateFile != cfg.stateFile {
		record, err := made.Open(cfg.stateFile)
		if err != nil {
			return sdk.FieldErrors{{Field: "stateFile", Message: err.Error()}}
		}
		b.made = record
	}
	b.cfg = cfg
	return nil
}

// Watch implements [sdk.Backend].
func (b *Backend) Watch(ctx context.Context, out *sdk.Reporter) error {
	b.mu.Lock()
	b.out = out
	b.mu.Unlock()
	var last rendered
	var beat time.Time
	var file fileWatch
	defer file.close()
	for {
		watched := file.renew(b.scenarioFile()) // before the file is read, so that no change is missed
		woken := time.Now()
		v := b.now()
		if v.crash {
			slog.Warn("the scenario ends the process", "id", string(v.scenario.Crash.ID))
			b.exit(1)
			return errors.New("mock: crashed") // in a test, where exit returns
		}
		if !v.hang {
			if r := v.rendered(); r != last {
				out.PublishInventory(v.inventory())
				last = r
				noteChange(v.cfg.changeLog, woken)
			}
			if time.Since(beat) >= out.Pace() { // the loop runs more often
				out.Beat()
				beat = time.Now()
			}
		}
		pause := min(out.Pace(), v.next)
		if v.cfg.scenarioFile != "" && !watched {
			pause = min(pause, unwatchedPoll)
		}
		wait(ctx, out, &file, pause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// wait returns after the pause, or earlier: when settings or the scenario file changed, or ctx
// ended.
func wait(ctx context.Context, out *sdk.Reporter, file *fileWatch, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	changes, lost := file.events()
	for changed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-out.Reconfigured():
			return
		case <-timer.C:
			return
		case err := <-lost:
			slog.Debug("file events were lost", "error", err) // an overflow
			return
		case event := <-changes:
			if !changed && file.concerns(event) {
				changed = true
				timer.Reset(settle)
			}
		}
	}
}

func (b *Backend) scenarioFile() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.scenarioFile
}

// noteChange adds a change to the log, if there is one. It is for measurements: what
// cannot be written is only logged.
func noteChange(path string, at time.Time) { appendLine(path, at.UnixNano()) }

// noHolder is the holder of a call that is for none.
const noHolder = "-"

// noteCall adds a call for a device to the log, if there is one.
func noteCall(path, call, holder, device string) { appendLine(path, call, holder, device, os.Getpid()) }

// appendLine adds a line to a file; an empty path is none.
func appendLine(path string, words ...any) {
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // others read it
	if err == nil {
		_, err = fmt.Fprintln(f, words...)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		slog.Warn("a log for tests cannot be written", "file", path, "error", err)
	}
}

// now reads the scenario file, and returns the present view.
func (b *Backend) now() *view {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.reload(now)
	v := newView(b.cfg, &b.play, b.play.at(now))
	v.problem = b.file.problem
	b.forgetResets(v)
	v.version, v.cleared, v.made = b.version, maps.Clone(b.cleared), b.made.Devices()
	return v
}

// reload reads the scenario file. One that is bad is reported, and the last
// good one stays. The caller holds mu.
func (b *Backend) reload(now time.Time) {
	if b.file.path != b.cfg.scenarioFile {
		b.file = loadedFile{path: b.cfg.scenarioFile}
	}
	var data []byte
	var modified time.Time
	var err error
	if b.file.path != "" {
		data, modified, err = readScenario(b.file.path)
	}
	problem := b.file.invalid
	switch {
	case err != nil:
		problem = b.badScenario(err)
	case !b.file.read || string(data) != b.file.content:
		old := !b.file.read && !modified.After(b.started)
		b.file.read, b.file.content, b.file.invalid = true, string(data), ""
		s, err := parseScenario(data)
		if err != nil {
			b.file.invalid = b.badScenario(err)
		} else {
			b.play.load(s, old, now)
			if b.file.path != "" {
				slog.Info("scenario loaded", "file", b.file.path, "bytes", len(data), "steps", len(s.Steps))
			}
		}
		problem = b.file.invalid
	}
	if problem != b.file.problem {
		b.file.problem = problem
		b.version++
		if problem != "" {
			slog.Warn(problem)
		}
	}
}

// maxScenario bounds a scenario file, in bytes.
const maxScenario = 1 << 20

// readScenario reads a scenario file; a missing one is empty. Modified is zero
// for a missing file.
func readScenario(path string) (data []byte, modified time.Time, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, time.Time{}, nil
	case err != nil:
		return nil, time.Time{}, err
	case !info.Mode().IsRegular():
		return nil, time.Time{}, errors.New("no regular file")
	case info.Size() > maxScenario:
		return nil, time.Time{}, fmt.Errorf("longer than %d bytes", maxScenario)
	}
	data, err = os.ReadFile(path)
	return data, info.ModTime(), err
}

func (b *Backend) badScenario(err error) string {
	return fmt.Sprintf("scenario file %s: %s; the last good scenario stays",
		b.file.path, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// forgetResets forgets a reset once the scenario has no fault, or another one, for the device.
// The caller holds mu.
func (b *Backend) forgetResets(v *view) {
	for id, f := range b.cleared {
		if s := v.byID[id]; s == nil || v.entry(s).Fault == nil || *v.entry(s).Fault != f {
			delete(b.cleared, id)
			b.version++
		}
	}
}
