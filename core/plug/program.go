package plug

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Program is a backend's program with its manifest. Both passed the checks.
type Program struct {
	// Name is the path in the backend directory, Path what it resolves to.
	Name, Path string
	Manifest   *manifest.Manifest
	// File is the open file from which a pinned program is executed; nil if it is not pinned.
	File *os.File

	mark mark
	// beside are the manifest and the files that belong to it, by their paths.
	beside map[string]mark
}

// Pins are the checksums that a configuration demands: "sha256:" and 64 hexadecimal digits in lower case; "" accepts any.
type Pins struct {
	// Program is that of the program's file, Manifest the manifest's Sum.
	Program, Manifest string
}

// Find returns a program by its file name in a directory, with the manifest beside it. Only root and the user of this
// process may be able to write or exchange them. The caller must call Close. Every error includes what to do.
func Find(dir, command string, pins Pins) (*Program, error) {
	p, err := findProgram(dir, command)
	if err != nil {
		return nil, err
	}
	if err := p.readManifest(); err != nil {
		return nil, err
	}
	if err := p.Pin(pins); err != nil {
		return nil, err
	}
	return p, nil
}

// Programs returns the file names of the programs of backends in a directory, sorted. It is an error if there are none.
func Programs(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find the backends' programs: %w; --backend-dir names their directory", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, config.CommandPrefix) && !strings.Contains(name, ".") && !entry.IsDir() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there are no programs of backends (%s*) in %s; --backend-dir names their directory", config.CommandPrefix, dir)
	}
	return names, nil
}

// ManifestFile returns the path of the manifest of a program in a directory.
func ManifestFile(dir, command string) string { return filepath.Join(dir, command+".yaml") }

// readManifest reads and checks the manifest beside the program.
func (p *Program) readManifest() error {
	file := p.Name + ".yaml"
	p.beside = map[string]mark{}
	m, err := manifest.Load(file, func(path string, info fs.FileInfo) error {
		p.beside[path] = markFrom(info)
		return checkBeside(path, info)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the manifest %s of the program does not exist: install it with the program; a backend needs a manifest beside it (docs/manifest.md)", file)
	}
	if err != nil {
		return fmt.Errorf("the manifest of the program %s cannot be used: %w", p.Name, err)
	}
	if !slices.Contains(m.Protocols, backendplugin.ProtocolVersion) {
		return fmt.Errorf("the manifest %s is for the versions %v of the backend contract, but this core needs version %d: install matching versions of the backend and the core",
			file, m.Protocols, backendplugin.ProtocolVersion)
	}
	p.Manifest = m
	return nil
}

// checkBeside checks a manifest, or a file that belongs to one, from its open descriptor, and the directories that lead to
// it.
func checkBeside(path string, info fs.FileInfo) error {
	if mode := info.Mode(); mode.Perm()&0o022 != 0 {
		return fmt.Errorf("the file %s may be written by its group or others (mode %04o), who could give the program other rights: run chmod go-w %s", path, mode.Perm(), path)
	}
	if err := checkOwner("file", path, info); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("the file %s cannot be reached: %w", path, err)
	}
	for _, dir := range slices.Compact([]string{filepath.Dir(path), filepath.Dir(real)}) {
		if err := errors.Join(checkDir(dir), checkAbove(dir)); err != nil {
			return err
		}
	}
	return nil
}

// CheckIdentity compares what a process answers with its manifest. The error is a [*MismatchError].
func (p *Program) CheckIdentity(name, version string) error {
	d := p.Manifest.Description
	if name == d.Name && version == d.Version {
		return nil
	}
	return &MismatchError{fmt.Sprintf("the program %s is %s %s, but its manifest %s is for %s %s: install a program and a manifest of one version",
		p.Name, name, version, p.Name+".yaml", d.Name, d.Version)}
}

// MismatchError is for a program and a manifest that do not belong together, as happens while both are being replaced.
type MismatchError struct{ message string }

func (e *MismatchError) Error() string { return e.message }

// Close closes the file. A process that was started from it keeps its own descriptor.
func (p *Program) Close() {
	if p.File != nil {
		_ = p.File.Close() // read only: nothing to lose
	}
}

// Unchanged reports whether the program's file is still the one that was checked. After the start it
// confirms that the checked file runs: replacing and restoring the file would have updated
// its change time, and a program that is being executed cannot be written.
func (p *Program) Unchanged() bool { return markOf(p.Path) == p.mark }

// Replaced returns the problem of a running program whose next start would use other
// files; "" if there is none. A changed mode or an added link is no other file.
func (p *Program) Replaced() string {
	path, err := filepath.EvalSymlinks(p.Name)
	if err != nil {
		return fmt.Sprintf("its program %s is missing or cannot be reached: the process keeps running, but could not be restarted; install the program again", p.Name)
	}
	if !markOf(path).sameFile(p.mark) {
		return fmt.Sprintf("its program %s was replaced: the process of the old program keeps running; restart the agent to start the new program", p.Name)
	}
	for _, file := range slices.Sorted(maps.Keys(p.beside)) {
		if !markOf(file).sameFile(p.beside[file]) {
			return fmt.Sprintf("its manifest's file %s was replaced or removed: the process keeps running with the rights of the old one; restart the agent to use the new one", file)
		}
	}
	return ""
}

// Pin checks that the program and its manifest have the checksums. It keeps the program's file open:
// the file whose checksum was compared must be executed, even if the path leads to another
// one by then.
func (p *Program) Pin(pins Pins) error {
	if pins.Manifest != "" && pins.Manifest != p.Manifest.Sum {
		return fmt.Errorf("the manifest %s has the checksum %s, with the files that belong to it, but the configuration pins %s: install the pinned manifest, or change manifestChecksum of this backend",
			p.Name+".yaml", p.Manifest.Sum, pins.Manifest)
	}
	checksum := pins.Program
	if checksum == "" {
		return nil
	}
	file, err := os.Open(p.Path)
	if err != nil {
		return fmt.Errorf("the checksum of the program %s cannot be compared: %w", p.Path, err)
	}
	got, err := checksumOf(file)
	if err != nil {
		return errors.Join(fmt.Errorf("the checksum of the program %s cannot be compared: %w", p.Path, err), file.Close())
	}
	if got != checksum {
		return errors.Join(fmt.Errorf("the program %s has the checksum %s, but the configuration pins %s: install the pinned program, or change checksum of this backend",
			p.Path, got, checksum), file.Close())
	}
	p.File = file
	return nil
}

// Checksum returns the checksum of the program's file, as [Pins] has it.
func (p *Program) Checksum() (sum string, err error) {
	file := p.File
	if file == nil {
		if file, err = os.Open(p.Path); err != nil {
			return "", fmt.Errorf("read the program: %w", err)
		}
		defer func() { _ = file.Close() }() // read only: nothing to lose
	}
	if sum, err = checksumOf(file); err != nil {
		return "", fmt.Errorf("read the program %s: %w", p.Path, err)
	}
	return sum, nil
}

func checksumOf(file *os.File) (string, error) {
	sum := sha256.New()
	// From its start, wherever it was read before.
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, math.MaxInt64)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// Marks identifies the versions of a program in a directory and of the files that belong to it: those whose names begin
// with the program's and a dot. It is cheap, and equal until one of them changes.
type Marks string

// MarksOf returns the marks of a program's files.
func MarksOf(dir, command string) Marks {
	files, err := os.ReadDir(dir)
	if err != nil || command == "" {
		return ""
	}
	var all strings.Builder
	for _, file := range files {
		if name := file.Name(); name == command || strings.HasPrefix(name, command+".") {
			fmt.Fprintln(&all, name, markOf(filepath.Join(dir, name)))
		}
	}
	return Marks(all.String())
}
