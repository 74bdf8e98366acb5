package holders

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

func prepared(uid types.UID) *ClaimRecord {
	return &ClaimRecord{
		Claim: Claim{Driver: "mock.accelmux.io", UID: uid, Namespace: "default", Name: "gpu"}, BootID: "boot", Prepared: true,
		Devices: []ClaimDevice{{
			Request: "gpu/large", Pool: "node-1", Name: "gpu-0", Backend: "mock", ID: "GPU-0", Share: "s", Admin: true,
			CDI: "mock.accelmux.io/holder=GPU-0::" + string(uid), Parameters: json.RawMessage(`{"a":1}`), Edits: json.RawMessage(`{"env":["A=b"]}`),
		}},
	}
}

// claimsIn are those of a book in the directory.
func claimsIn(t *testing.T, dir string, disk checkpoint.Writer) *Claims {
	t.Helper()
	k := newKubelet()
	opts := options(t, k)
	opts.Path, opts.Disk = filepath.Join(dir, "usage"), disk
	return open(t, k, opts).Claims()
}

// remove ends a claim of no backend.
func remove(s *Claims, i ClaimID) error {
	_, err := s.End(i, func(inventory.Key) bool { return false })
	return err
}

// Verifies that a claim is read back as it was stored, that a caller cannot change it, and that it
// can be removed more than once.
func TestClaimStore(t *testing.T) {
	dir := t.TempDir()
	s := claimsIn(t, dir, checkpoint.Writer{})
	c := prepared("1-2")
	if err := errors.Join(s.Put(prepared("3-4")), s.Put(c)); err != nil {
		t.Fatal(err)
	}
	c.Devices[0].ID = "changed"
	s.Get("mock.accelmux.io", "1-2").Devices[0].ID = "changed"
	s = claimsIn(t, dir, checkpoint.Writer{})
	all := s.All()
	for _, c := range all { // indented in the file
		for i := range c.Devices {
			c.Devices[i].Parameters, c.Devices[i].Edits = compact(t, c.Devices[i].Parameters), compact(t, c.Devices[i].Edits)
		}
	}
	if diff := cmp.Diff([]*ClaimRecord{prepared("1-2"), prepared("3-4")}, all); diff != "" || len(s.Problems()) > 0 {
		t.Errorf("read back (-want +got):\n%s\nproblems %v", diff, s.Problems())
	}
	for range 2 {
		if err := remove(s, ClaimID{"mock.accelmux.io", "1-2"}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Get("mock.accelmux.io", "1-2") != nil || len(claimsIn(t, dir, checkpoint.Writer{}).All()) != 1 {
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
		if err := claimsIn(t, dir, checkpoint.Writer{}).Put(prepared(uid)); err != nil {
			t.Fatal(err)
		}
	}
	change := func(uid string, change func(string) string) {
		path := filepath.Join(dir, "claims", "mock.accelmux.io_"+uid)
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
	if err := errors.Join((checkpoint.Writer{}).Write(filepath.Join(dir, "claims", "mock.accelmux.io_senseless"), claimMagic, []byte(`{"driver":"mock.accelmux.io","uid":"senseless"}`)),
		os.Rename(filepath.Join(dir, "claims", "mock.accelmux.io_other"), filepath.Join(dir, "claims", "mock.accelmux.io_another"))); err != nil {
		t.Fatal(err)
	}
	s := claimsIn(t, dir, checkpoint.Writer{})
	if all := s.All(); len(all) != 1 || all[0].UID != "good" {
		t.Errorf("the claims are %v, want the good one", all)
	}
	if problems := s.Problems(); len(problems) != 6 {
		t.Errorf("%d problems %v, want one for each of 6 files", len(problems), problems)
	}
	again := claimsIn(t, dir, checkpoint.Writer{})
	if diff := cmp.Diff(s.Problems(), again.Problems()); diff != "" {
		t.Errorf("at the next start (-before +after):\n%s", diff)
	}
	if !again.Defines("mock.accelmux.io/holder=GPU-7::newer") || again.Defines("mock.accelmux.io/holder=GPU-7::unknown") {
		t.Error("a definition of a claim that cannot be read counts as that of no claim, or one of no claim as that of one")
	}
	for _, i := range again.Unreadable() {
		if err := remove(again, i); err != nil {
			t.Error(err)
		}
	}
	if all := again.Problems(); len(all) > 0 || again.Defines("mock.accelmux.io/holder=GPU-7::newer") || len(claimsIn(t, dir, checkpoint.Writer{}).Problems()) > 0 {
		t.Errorf("after an unprepare: %v", all)
	}
}

// Verifies which CDI names and devices are those of claims, also of a claim that is in memory alone.
func TestClaimDefines(t *testing.T) {
	dir := t.TempDir()
	s := claimsIn(t, dir, checkpoint.Writer{})
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
	if !s.Has(key) || s.Has(inventory.Key{Backend: "mock", ID: "GPU-1"}) || claimsIn(t, dir, checkpoint.Writer{}).Has(key) {
		t.Error("the devices are not those of the claim, or it is on disk")
	}
	const name = "mock.accelmux.io/holder=GPU-0::1-2"
	if s.book.endClaim(ClaimID{"mock.accelmux.io", "1-2"}, anyDevice); s.Defines(name) || !s.Has(key) || s.Get("mock.accelmux.io", "1-2").Prepared {
		t.Error("a claim that ends keeps its definitions, has no devices, or is prepared")
	}
	if c := s.Find(name); c == nil || c.UID != "1-2" || s.Find("mock.accelmux.io/holder=GPU-0::1") != nil {
		t.Errorf("%s is that of claim %v", name, c)
	}
	if s.Expect(prepared("1-2")); !s.Defines(name) {
		t.Error("a claim that is prepared again has no definitions")
	}
	if err := remove(s, ClaimID{"mock.accelmux.io", "1-2"}); err != nil || s.Has(key) {
		t.Errorf("after an unprepare: %v", err)
	}
}

// Verifies that after a crash at any step a claim is there as it was before or as it was to be.
func TestCrashOfPut(t *testing.T) {
	for _, step := range []checkpoint.Op{checkpoint.OpCreate, checkpoint.OpWrite, checkpoint.OpSync, checkpoint.OpRename, checkpoint.OpSyncDir} {
		dir := t.TempDir()
		if err := claimsIn(t, dir, checkpoint.Writer{}).Put(prepared("a")); err != nil {
			t.Fatal(err)
		}
		crash := errors.New("crash")
		s := claimsIn(t, dir, checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
			if op == step {
				return crash
			}
			return nil
		}})
		next := prepared("a")
		next.Name = "next"
		if err := s.Put(next); !errors.Is(err, crash) {
			t.Fatalf("%s: %v", step, err)
		}
		want := "gpu"
		if step == checkpoint.OpSyncDir {
			want = "next"
		}
		if got := claimsIn(t, dir, checkpoint.Writer{}).Get("mock.accelmux.io", "a"); got == nil || got.Name != want {
			t.Errorf("%s: the claim is %v, want %s", step, got, want)
		}
	}
}

// Verifies that a claim that lacks something is not stored, and that other files are no claims.
func TestIncompleteClaim(t *testing.T) {
	dir := t.TempDir()
	for i, without := range []func(c *ClaimRecord, d *ClaimDevice){
		func(c *ClaimRecord, _ *ClaimDevice) { c.Driver = "" }, func(c *ClaimRecord, _ *ClaimDevice) { c.UID = "" }, func(c *ClaimRecord, _ *ClaimDevice) { c.Namespace = "" },
		func(c *ClaimRecord, _ *ClaimDevice) { c.Name = "" }, func(c *ClaimRecord, _ *ClaimDevice) { c.Devices = nil },
		func(_ *ClaimRecord, d *ClaimDevice) { d.Request = "" }, func(_ *ClaimRecord, d *ClaimDevice) { d.Pool = "" }, func(_ *ClaimRecord, d *ClaimDevice) { d.Name = "" },
		func(_ *ClaimRecord, d *ClaimDevice) { d.Backend = "" }, func(_ *ClaimRecord, d *ClaimDevice) { d.ID = "" }, func(_ *ClaimRecord, d *ClaimDevice) { d.CDI = "" },
	} {
		c := prepared("a")
		without(c, &c.Devices[0])
		if err := claimsIn(t, dir, checkpoint.Writer{}).Put(c); err == nil {
			t.Errorf("%d: an incomplete claim is stored", i)
		}
	}
	must(t, os.MkdirAll(filepath.Join(dir, "claims"), 0o700))
	for _, name := range []string{"README", "a_b_c", ".x_y"} {
		if err := os.WriteFile(filepath.Join(dir, "claims", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s := claimsIn(t, dir, checkpoint.Writer{}); len(s.All())+len(s.Unreadable()) > 0 {
		t.Errorf("claims are %v, %v", s.All(), s.Unreadable())
	}
}

// Verifies that what cannot be part of a path is refused.
func TestClaimPaths(t *testing.T) {
	dir := t.TempDir()
	s := claimsIn(t, dir, checkpoint.Writer{})
	for _, uid := range []types.UID{"", "..", "../x", "a_b", "a/b", "A", types.UID(strings.Repeat("a", 129))} {
		if s.Put(prepared(uid)) == nil || remove(s, ClaimID{"mock.accelmux.io", uid}) == nil {
			t.Errorf("UID %q is accepted", uid)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "claims" }) {
		t.Errorf("files %v, %v", entries, err)
	}
}

// Verifies that while a claim is written to a disk, which may take seconds, or removed from it, no other call for a
// claim waits, nor does an Allocate or the agent's round: the book is not locked.
func TestBookIsNotLockedForTheDisk(t *testing.T) {
	var s *Claims
	steps := 0
	s = claimsIn(t, t.TempDir(), checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
		steps++
		if !s.book.mu.TryLock() {
			t.Fatalf("the book is locked at the step %v", op)
		}
		s.book.mu.Unlock()
		return nil
	}})
	if err := errors.Join(s.Put(prepared("1-2")), remove(s, ClaimID{"mock.accelmux.io", "1-2"})); err != nil || steps < 2 {
		t.Errorf("%v, %d steps", err, steps)
	}
}

// Verifies that from the moment at which the releases of a claim that ends are stored, its definitions need not stay; that it
// stays in the record, not prepared, if they cannot be; and that the next end removes it, and returns the devices to which
// it had admin access.
func TestEndOfAClaim(t *testing.T) {
	full := errors.New("no space left on device")
	var s *Claims
	var fails bool
	stored := 0
	dir, device := t.TempDir(), key("GPU-1")
	s = claimsIn(t, dir, checkpoint.Writer{Before: func(op checkpoint.Op, path string) error {
		if op != checkpoint.OpWrite || !strings.Contains(path, "usage") {
			return nil
		}
		stored++
		if s.Defines("mock.accelmux.io/holder=GPU-1::x") || s.book.Held(device) {
			t.Error("its definitions stay, or its device is held, when its release is stored")
		}
		if fails {
			return full
		}
		return nil
	}})
	c := prepared("x")
	c.Devices = append(c.Devices, recordOf(c.Claim, "GPU-1").Devices...)
	must(t, s.Put(c))
	fails = true
	if _, err := s.End(c.ID(), anyDevice); !errors.Is(err, full) {
		t.Errorf("the releases are not stored: %v", err)
	}
	if got := claimsIn(t, dir, checkpoint.Writer{}).Get(c.Driver, c.UID); got == nil || got.Prepared {
		t.Errorf("the record has %+v", got)
	}
	fails = false
	admin, err := s.End(c.ID(), anyDevice)
	if !slices.Equal(admin, []inventory.Key{key("GPU-0")}) || err != nil || s.Get(c.Driver, c.UID) != nil || stored != 2 {
		t.Errorf("admin access to %v; %v; the record has %v; stored %d times", admin, err, s.All(), stored)
	}
}
