package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/sandbox"
)

// knownMagic is the kind and version of the file of known needs.
const knownMagic = "accelmux-needs/1"

// maxKnown bounds the known needs: of some versions of each program, with some settings.
const maxKnown = 64

// known are the needs that programs declared, by the programs' checksums and their settings: a program
// is started with the rights that it needs, and must have declared them before that. In a takeover two
// agents write the same file; what one of them loses is asked again. It is safe for concurrent use.
type known struct {
	path string // "" for none
	log  *slog.Logger

	mu    sync.Mutex
	needs map[string]sandbox.Needs
	// sums are the checksums of program files that have not changed.
	sums map[mark]string
}

// openKnown reads the needs that an earlier agent knew. A file that cannot be read has none.
func openKnown(path string, log *slog.Logger) *known {
	k := &known{path: path, log: log, needs: map[string]sandbox.Needs{}, sums: map[mark]string{}}
	if path == "" {
		return k
	}
	data, err := checkpoint.Read(path, knownMagic)
	if err == nil {
		err = json.Unmarshal(data, &k.needs)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the needs of the backends' programs are not known any more: each program is started once more to ask for them", "error", err)
		k.needs = map[string]sandbox.Needs{}
	}
	return k
}

// keyOf is the key of a program with settings; nil is what it needs whatever its settings.
func keyOf(sum string, settings json.RawMessage) string {
	if settings == nil {
		return sum
	}
	hash := sha256.Sum256(settings)
	return sum + " " + hex.EncodeToString(hash[:])
}

// of returns the needs of a program with settings, and whether its description is known.
func (k *known) of(sum string, settings json.RawMessage) (sandbox.Needs, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	needs, ok := k.needs[keyOf(sum, nil)]
	return needs.Join(k.needs[keyOf(sum, settings)]), ok
}

// put stores needs of a program with settings; nil as for keyOf.
func (k *known) put(sum string, settings json.RawMessage, needs sandbox.Needs) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.needs) >= maxKnown {
		k.needs = map[string]sandbox.Needs{}
	}
	k.needs[keyOf(sum, settings)] = needs
	if k.path == "" {
		return
	}
	data, err := json.Marshal(k.needs)
	if err == nil {
		err = checkpoint.Writer{}.Write(k.path, knownMagic, data)
	}
	if err != nil {
		k.log.Warn("the needs of a backend's program cannot be stored: the next agent asks for them", "error", err)
	}
}

// sum returns the checksum of a program's file.
func (k *known) sum(p *program) (string, error) {
	k.mu.Lock()
	sum := k.sums[p.mark]
	k.mu.Unlock()
	if sum != "" {
		return sum, nil
	}
	sum, err := p.checksum()
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.sums) >= maxKnown {
		clear(k.sums)
	}
	k.sums[p.mark] = sum
	return sum, nil
}
