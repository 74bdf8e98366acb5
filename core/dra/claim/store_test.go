package claim

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

func prepared(uid types.UID) *Claim {
	return &Claim{
		Driver: "mock.accelmux.io", UID: uid, Namespace: "default", Name: "gpu", BootID: "boot", Prepared: true,
		Devices: []Device{{
			Request: "gpu/large", Pool: "node-1", Name: "gpu-0", Backend: "mock", ID: "GPU-0", Share: "s", Admin: true,
			CDI: "mock.accelmux.io/holder=GPU-0::" + string(uid), Parameters: json.RawMessage(`{"a":1}`), Edits: json.RawMessage(`{"env":["A=b"]}`),
		}},
	}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, checkpoint.Writer{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Verifies that a claim is read back as it was stored, that a caller cannot change it, and that it
// can be removed more than once.
func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "claims")
	s := open(t, dir)
	c := prepared("1-2")
	if err := errors.Join(s.Put(prepared("3-4")), s.Put(c)); err != nil {
		t.Fatal(err)
	}
	c.Devices[0].ID = "changed"
	s.Get("mock.accelmux.io", "1-2").Devices[0].ID = "changed"
	s = open(t, dir)
	all := s.All()
	for _, c := range all { // indented in the file
		for i := range c.Devices {
			c.Devices[i].Parameters, c.Devices[i].Edits = compact(t, c.Devices[i].Parameters), compact(t, c.Devices[i].Edits)
		}
	}
	if diff := cmp.Diff([]*Claim{prepared("1-2"), prepared("3-4")}, all); diff != "" || len(s.Problems()) > 0 {
		t.Errorf("read back (-want +got):\n%s\nproblems %v", diff, s.Problems())
	}
	for range 2 {
		if err := s.Remove("mock.accelmux.io", "1-2"); err != nil {
			t.Fatal(err)
		}
	}
	if s.Get("mock.accelmux.io", "1-2") != nil || len(open(t, dir).All()) != 1 {
		t.Error("a removed claim is there")
	}
}

func compact(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Verifies that a file that is damaged, of a newer version or of another claim costs its claim a
// problem and no other claim anything, at each start; that it stays for a program that reads it; that
// definitions of its claim count as the claim's; and that an unprepare clears the problem.
func TestCorruptOrNewerRecordCostsAProblem(t *testing.T) {
	dir := t.TempDir()
	for _, uid := range []types.UID{"good", "cut", "bit", "newer", "senseless", "other", "empty"} {
		if err := open(t, dir).Put(prepared(uid)); err != nil {
			t.Fatal(err)
		}
	}
	change := func(uid string, change func(string) string) {
		path := filepath.Join(dir, "mock.accelmux.io_"+uid)
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(change(string(content))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("cut", func(s string) string { return s[:len(s)/2] })
	change("bit", func(s string) string { return strings.Replace(s, "GPU-0", "GPU-1", 1) })
	change("newer", func(s string) string { return strings.Replace(s, "accelmux-claim/1", "accelmux-claim/2", 1) })
	change("empty", func(string) string { return "" })
	if err := errors.Join((checkpoint.Writer{}).Write(filepath.Join(dir, "mock.accelmux.io_senseless"), magic, []byte(`{"driver":"mock.accelmux.io","uid":"senseless"}`)),
		os.Rename(filepath.Join(dir, "mock.accelmux.io_other"), filepath.Join(dir, "mock.accelmux.io_another"))); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if all := s.All(); len(all) != 1 || all[0].UID != "good" {
		t.Errorf("the claims are %v, want the good one", all)
	}
	if problems := s.Problems(); len(problems) != 6 {
		t.Errorf("%d problems %v, want one for each of 6 files", len(problems), problems)
	}
	again := open(t, dir)
	if diff := cmp.Diff(s.Problems(), again.Problems()); diff != "" {
		t.Errorf("at the next start (-before +after):\n%s", diff)
	}
	if !again.Defines("mock.accelmux.io/holder=GPU-7::newer") || again.Defines("mock.accelmux.io/holder=GPU-7::unknown") {
		t.Error("a definition of a claim that cannot be read counts as that of no claim, or one of no claim as that of one")
	}
	for _, i := range again.Unreadable() {
		if err := again.Remove(i.Driver, i.UID); err != nil {
			t.Error(err)
		}
	}
	if all := again.Problems(); len(all) > 0 || again.Defines("mock.accelmux.io/holder=GPU-7::newer") || len(open(t, dir).Problems()) > 0 {
		t.Errorf("after an unprepare: %v", all)
	}
}

// Verifies which CDI names and devices are those of claims, also of a claim that is in memory alone.
func TestUses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.Expect(prepared("1-2"))
	key := inventory.Key{Backend: "mock", ID: "GPU-0"}
	for name, want := range map[string]bool{
		"mock.accelmux.io/holder=GPU-0::1-2":  true,
		"mock.accelmux.io/holder=GPU-1::1-2":  false,
		"mock.accelmux.io/holder=GPU-0::3-4":  false,
		"other.accelmux.io/holder=GPU-0::1-2": false,
		"mock.accelmux.io/gpu=GPU-0::1-2":     false,
		"mock.accelmux.io/gpu=GPU-0":          false,
		"":                                    false,
	} {
		if s.Defines(name) != want {
			t.Errorf("%s is a claim's: %v", name, !want)
		}
	}
	if !s.Has(key) || s.Has(inventory.Key{Backend: "mock", ID: "GPU-1"}) || open(t, dir).Has(key) {
		t.Error("the devices are not those of the claim, or it is on disk")
	}
	const name = "mock.accelmux.io/holder=GPU-0::1-2"
	if s.End("mock.accelmux.io", "1-2"); s.Defines(name) || !s.Has(key) || s.Get("mock.accelmux.io", "1-2").Prepared {
		t.Error("a claim that ends keeps its definitions, has no devices, or is prepared")
	}
	if c := s.Find(name); c == nil || c.UID != "1-2" || s.Find("mock.accelmux.io/holder=GPU-0::1") != nil {
		t.Errorf("%s is that of claim %v", name, c)
	}
	if s.Expect(prepared("1-2")); !s.Defines(name) {
		t.Error("a claim that is prepared again has no definitions")
	}
	if err := s.Remove("mock.accelmux.io", "1-2"); err != nil || s.Has(key) {
		t.Errorf("after an unprepare: %v", err)
	}
}

// Verifies that after a crash at any step a claim is there as it was before or as it was to be.
func TestCrash(t *testing.T) {
	for _, step := range []checkpoint.Op{checkpoint.OpCreate, checkpoint.OpWrite, checkpoint.OpSync, checkpoint.OpRename, checkpoint.OpSyncDir} {
		dir := t.TempDir()
		if err := open(t, dir).Put(prepared("a")); err != nil {
			t.Fatal(err)
		}
		crash := errors.New("crash")
		s, err := Open(dir, checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
			if op == step {
				return crash
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		next := prepared("a")
		next.Name = "next"
		if err := s.Put(next); !errors.Is(err, crash) {
			t.Fatalf("%s: %v", step, err)
		}
		want := "gpu"
		if step == checkpoint.OpSyncDir {
			want = "next"
		}
		if got := open(t, dir).Get("mock.accelmux.io", "a"); got == nil || got.Name != want {
			t.Errorf("%s: the claim is %v, want %s", step, got, want)
		}
	}
}

// Verifies that a claim that lacks something is not stored, and that other files are no claims.
func TestIncomplete(t *testing.T) {
	dir := t.TempDir()
	for i, remove := range []func(c *Claim, d *Device){
		func(c *Claim, _ *Device) { c.Driver = "" }, func(c *Claim, _ *Device) { c.UID = "" }, func(c *Claim, _ *Device) { c.Namespace = "" },
		func(c *Claim, _ *Device) { c.Name = "" }, func(c *Claim, _ *Device) { c.Devices = nil },
		func(_ *Claim, d *Device) { d.Request = "" }, func(_ *Claim, d *Device) { d.Pool = "" }, func(_ *Claim, d *Device) { d.Name = "" },
		func(_ *Claim, d *Device) { d.Backend = "" }, func(_ *Claim, d *Device) { d.ID = "" }, func(_ *Claim, d *Device) { d.CDI = "" },
	} {
		c := prepared("a")
		remove(c, &c.Devices[0])
		if err := open(t, dir).Put(c); err == nil {
			t.Errorf("%d: an incomplete claim is stored", i)
		}
	}
	for _, name := range []string{"README", "a_b_c", ".x_y"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s := open(t, dir); len(s.All())+len(s.Unreadable()) > 0 {
		t.Errorf("claims are %v, %v", s.All(), s.Unreadable())
	}
}

// Verifies that what cannot be part of a path is refused.
func TestPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "claims")
	s := open(t, dir)
	for _, uid := range []types.UID{"", "..", "../x", "a_b", "a/b", "A", types.UID(strings.Repeat("a", 129))} {
		if s.Put(prepared(uid)) == nil || s.Remove("mock.accelmux.io", uid) == nil {
			t.Errorf("UID %q is accepted", uid)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "claims" }) {
		t.Errorf("files %v, %v", entries, err)
	}
}

// Verifies that while a claim is written to a disk, which may take seconds, or removed from it, no other call for a
// claim waits, nor does the agent's round: the store is not locked.
func TestStoreIsNotLockedForTheDisk(t *testing.T) {
	var s *Store
	steps := 0
	s, err := Open(filepath.Join(t.TempDir(), "claims"), checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
		steps++
		if !s.mu.TryLock() {
			t.Fatalf("the store is locked at the step %v", op)
		}
		s.mu.Unlock()
		return nil
	}})
	if err == nil {
		err = errors.Join(s.Put(prepared("1-2")), s.Remove("mock.accelmux.io", "1-2"))
	}
	if err != nil || steps < 2 {
		t.Errorf("%v, %d steps", err, steps)
	}
}
