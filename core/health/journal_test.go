package health

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// blockJournal has something else in the journal's place.
func (r *rig) blockJournal() {
	r.t.Helper()
	if err := os.RemoveAll(r.path + journalSuffix); err != nil {
		r.t.Fatalf("%v", err)
	}
	if err := os.Mkdir(r.path+journalSuffix, 0o700); err != nil {
		r.t.Fatalf("%v", err)
	}
}

// fullDisk has no state file written.
func (r *rig) fullDisk() {
	r.judge.file.write = func(string, string, []byte) error { return syscall.ENOSPC }
}

// judgeOnly judges, and the process is killed before it saves.
func (r *rig) judgeOnly() *View { return r.judge.Judge(r.store.Snapshot()) }

// TestKilledBeforeSave: what Judge has told is known to the next process, also that
// a fault is over and gone, though the state file was never written after it.
func TestKilledBeforeSave(t *testing.T) {
	r := newRig(t, "a", "b")
	r.say("a", faulty("x", reset))
	r.judgeNow()
	r.say("b", faulty("y", reboot))
	r.judgeOnly()
	r.open()
	r.devices["b"].Health = healthy()
	r.newStore()
	r.report()
	r.want("a", "x:reset")
	r.want("b", "y:reboot")

	r.say("b", recovered())
	r.judgeNow()
	r.wait(testDelay)
	r.judgeOnly()
	r.devices["b"].Health = healthy()
	r.restart()
	r.want("b", "")
	r.want("a", "x:reset")
	if notes := r.judge.Notes(); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
}

// TestJournalOnAFullDisk: while the state file cannot be written, however long, the
// journal has all that changes, and status says so.
func TestJournalOnAFullDisk(t *testing.T) {
	r := newRig(t, "a", "b", "c", "d")
	r.say("c", faulty("z", reboot))
	r.say("d", faulty("z", reboot))
	r.judgeNow()
	r.fullDisk()
	r.say("d", recovered())
	r.say("b", faulty("y", reboot))
	// Enough for each area to be used several times.
	for i := range 3000 {
		r.say("a", faulty(fmt.Sprintf("x%d", i%7), reset))
		r.judgeNow()
		r.say("a", recovered())
		r.judgeNow()
		r.wait(1000 * testDelay) // what flaps needs longer
		r.judgeNow()
	}
	r.say("a", faulty("last", reset))
	r.judgeNow()
	if notes := r.judge.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "kept in its journal") {
		t.Errorf("notes: %q", notes)
	}
	info, err := os.Stat(r.path + journalSuffix)
	if err != nil || info.Size() != 2*journalArea {
		t.Errorf("the journal: %v, %v, want %d bytes", info, err, 2*journalArea)
	}
	want := codes(r.last, "a")
	for _, d := range r.devices {
		d.Health = healthy()
	}
	r.restart()
	if r.want("a", want); !strings.Contains(want, "last:reset") {
		t.Errorf("a has the faults %q", want)
	}
	r.want("b", "y:reboot")
	r.want("c", "z:reboot")
	r.want("d", "")
}

// TestTooMuchForTheJournal: a change of more devices than the journal has room for is
// told before it is saved, and no note complains.
func TestTooMuchForTheJournal(t *testing.T) {
	r := newRig(t)
	for i := range 2000 {
		r.plug(fmt.Sprint(i)).Health = faulty("x", reset)
	}
	r.report()
	if v := r.judgeOnly(); codes(v, "7") != "x:reset" {
		t.Errorf("verdict: %q", codes(v, "7"))
	}
	if r.judge.file.unnoted == nil {
		t.Error("all of it fits")
	}
	r.judgeNow()
	r.open()
	r.want("1999", "x:reset")
	r.say("1999", recovered())
	r.judgeOnly()
	if err := r.judge.file.unnoted; err != nil {
		t.Errorf("a small change after it: %v", err)
	}
}

// TestJournalOfAnotherBoot: as for the state file.
func TestJournalOfAnotherBoot(t *testing.T) {
	r := newRig(t, "a", "b")
	r.say("a", faulty("x", reset))
	r.judgeOnly()
	r.boot = "b00t-2"
	r.devices["a"].Health = healthy()
	r.restart()
	r.want("a", "")
	r.say("b", faulty("y", reset))
	r.judgeOnly()
	r.devices["b"].Health = healthy()
	r.restart()
	r.want("a", "")
	r.want("b", "y:reset")
}

// TestOlderVersionInBetween: a state file that an older version wrote, which knows of no
// journal, is newer than all that is in one.
func TestOlderVersionInBetween(t *testing.T) {
	r := newRig(t, "a", "b")
	r.say("a", faulty("x", reset))
	r.judgeOnly()
	older := seal(`{"bootID":"b00t-1","devices":[{"backend":"mock","id":"b","faults":[{"code":"y","recovery":"reboot"}]}]}`)
	if err := os.WriteFile(r.path, []byte(older), 0o600); err != nil {
		t.Fatal(err)
	}
	r.devices["a"].Health = healthy()
	for range 2 {
		r.restart()
		r.want("a", "")
		r.want("b", "y:reboot")
	}
	r.say("a", faulty("x", reset))
	r.judgeOnly()
	r.devices["a"].Health = healthy()
	r.restart()
	r.want("a", "x:reset")
}

// TestTornJournal: a frame that was not written to its end, at any of its bytes, costs
// itself alone: it was not told yet.
func TestTornJournal(t *testing.T) {
	r := newRig(t, "a", "b")
	r.say("a", faulty("x", reset))
	r.judgeOnly()
	begin := r.judge.file.journal.offset
	r.say("b", faulty("y", reset))
	r.judgeOnly()
	end := r.judge.file.journal.offset
	whole, err := os.ReadFile(r.path + journalSuffix)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.devices {
		d.Health = healthy()
	}
	for cut := begin; cut <= end; cut++ {
		if err := os.RemoveAll(r.path); err != nil {
			t.Fatal(err)
		}
		torn := slices.Concat(whole[:cut], make([]byte, len(whole)-cut))
		if err := os.WriteFile(r.path+journalSuffix, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		r.restart()
		r.want("a", "x:reset")
		want := ""
		if bytes.Equal(torn, whole) {
			want = "y:reset"
		}
		r.want("b", want)
	}
}

// TestFrameOverAnother: a frame that was written over an older one, but not to its end,
// is neither of the two.
func TestFrameOverAnother(t *testing.T) {
	r := newRig(t, "a")
	path := r.path + journalSuffix
	for _, code := range []string{"xxxx", "yyyy"} {
		r.say("a", faulty(code, reset))
		r.judgeOnly()
		r.judge.file.journal.rewind()
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range frameHead + int(binary.LittleEndian.Uint32(content[4:])) {
		mixed := slices.Clone(content)
		mixed[i] ^= 1
		if frames, _, _ := readArea(mixed[:journalArea]); len(frames) > 0 {
			t.Errorf("with byte %d of an older frame it is read", i)
		}
	}
}

// TestNoJournal: something else in its place costs the journal only, and a later write
// of the state file finds that it may be had again.
func TestNoJournal(t *testing.T) {
	r := newRig(t, "a", "b")
	r.blockJournal()
	r.open()
	r.say("a", faulty("x", reset))
	r.want("a", "x:reset")
	if notes := r.judge.Notes(); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
	if err := os.Remove(r.path + journalSuffix); err != nil {
		t.Fatal(err)
	}
	r.say("a", faulty("y", reset))
	r.judgeNow()
	r.say("b", faulty("z", reset))
	r.judgeOnly()
	r.devices["b"].Health = healthy()
	r.restart()
	r.want("b", "z:reset")
	r.fullDisk()
	r.blockJournal()
	r.judge.file.journal, r.judge.file.unnoted = nil, syscall.EROFS
	r.say("b", faulty("y", reset))
	r.judgeNow()
	if notes := r.judge.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "would forget faults") || !strings.Contains(notes[0], "read-only") {
		t.Errorf("notes: %q", notes)
	}
}

// FuzzJournal: whatever is in the file, it is read without harm, and the next frame
// is the newest.
func FuzzJournal(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	frame := make([]byte, frameHead)
	binary.LittleEndian.PutUint32(frame, frameMagic)
	f.Add(frame, uint64(1))
	f.Fuzz(func(t *testing.T, content []byte, after uint64) {
		path := t.TempDir() + "/j"
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		j, frames, err := openJournal(path, after>>1)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.file.Close() }()
		before := j.number
		if len(frames) > 0 && before <= after>>1 {
			t.Errorf("%d frames after %d, the last is %d", len(frames), after>>1, before)
		}
		if before == ^uint64(0) {
			return
		}
		if err := j.add([]byte("next"), func() ([]byte, error) { return []byte("next"), nil }); err != nil {
			t.Fatal(err)
		}
		again, frames, err := openJournal(path, before)
		if err != nil || len(frames) != 1 || string(frames[0]) != "next" {
			t.Errorf("read again: %q, %v", frames, err)
		}
		_ = again.file.Close()
	})
}

// TestJudgedDuringASave verifies that a write of the state file keeps nobody waiting,
// and that what is judged meanwhile is known to a process that starts at any time after
// it: the file does not cover it, so the journal must go on where it is.
func TestJudgedDuringASave(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	real, begun, goOn := r.judge.file.write, make(chan struct{}), make(chan struct{})
	r.judge.file.write = func(path, magic string, payload []byte) error {
		close(begun)
		<-goOn
		return real(path, magic, payload)
	}
	judge := func(id string) {
		r.say(id, faulty("x", reset))
		r.judge.Judge(r.store.Snapshot())
	}
	judge("a")
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		r.judge.Save()
	}()
	<-begun
	judge("b")
	close(goOn)
	<-saved
	r.judge.file.write = real
	judge("c")
	r.open()
	for _, id := range []string{"a", "b", "c"} {
		if got := codes(r.judge.Judge(nil), id); got != "x:reset" {
			t.Errorf("after a restart %s has the faults %q", id, got)
		}
	}
}

// TestWriteTakesItsOwnTime verifies that what a write of the state waits for another one
// does not count as its own time, for which the disk rests then.
func TestWriteTakesItsOwnTime(t *testing.T) {
	r := newRig(t, "a")
	r.say("a", faulty("x", reset))
	r.judgeNow()
	r.say("a", faulty("y", reset))
	r.judge.Judge(r.store.Snapshot())
	r.now = r.now.Add(time.Hour)
	looks, early := 0, 0
	r.judge.now = func() time.Time {
		looks++
		if r.judge.file.writing.TryLock() {
			r.judge.file.writing.Unlock()
			early++
		}
		return r.now
	}
	r.judge.Save()
	if looks == 0 || early > 0 {
		t.Errorf("of %d looks at the clock %d came before it was this write's turn", looks, early)
	}
}
