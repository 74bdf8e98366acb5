package amdtree

import (
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/test/sysroot"
)

// What is not of AMD's cards is in [sysroot]; these are its names here.

// Damage is [sysroot.Damage].
type Damage = sysroot.Damage

// Damages are [sysroot.Damages].
var Damages = sysroot.Damages

// Kinds of damage.
var (
	Truncate   Damage = sysroot.Truncate
	Empty      Damage = sysroot.Empty
	Binary     Damage = sysroot.Binary
	HugeNumber Damage = sysroot.HugeNumber
	Endless    Damage = sysroot.Endless
	Loop       Damage = sysroot.Loop
	Dangling   Damage = sysroot.Dangling
	FIFO       Damage = sysroot.FIFO
	Directory  Damage = sysroot.Directory
)

// MakeTemp is [sysroot.MakeTemp].
func MakeTemp() (string, error) { return sysroot.MakeTemp() }

// TempDir is [sysroot.TempDir].
func TempDir(tb testing.TB) string {
	tb.Helper()
	return sysroot.TempDir(tb)
}

// Spoil does a damage to a file of the tree, whose name begins with sys/ or dev/.
func (t *Tree) Spoil(name string, damage Damage) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return damage(filepath.Join(t.Root, name))
}
