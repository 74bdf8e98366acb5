package health

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/checkpoint"
)

const (
	// journalSuffix follows the state file's path.
	journalSuffix = ".journal"
	// journalArea is the size of each of the two areas, in bytes: room for some
	// hundred devices with a fault each.
	journalArea = 128 << 10
	// frameHead is the length of a frame's head, frameMagic its first bytes.
	frameHead  = 20
	frameMagic = 0x616d786a
)

// errNoRoom says that a frame does not fit into an area.
var errNoRoom = errors.New("the journal has no room for so many devices at once")

// journal holds what changed since the state file was written: a write of some hundred
// bytes that is done before kubelet hears of the change, where the state file would take
// a disk's time: of 1,000 of 220 bytes half take a microsecond, 99 in a hundred at most
// 25, on ext4 as on tmpfs, on a busy machine. Nothing is synced. What is written
// survives the process, however that ends; it does not survive a power cut, after which
// the faults of the boot before count for nothing anyway. The file has its full size
// from the start, so that it can be written while the disk is full.
//
//	area 0   frame 7, frame 8, …      each: magic, length, number, checksum, payload
//	area 1   frame 5, frame 6
//
// Frames have consecutive numbers. The state file names the last one that it covers; if
// there is no newer one by then, the next is written over the beginning of the same area.
// While the state file cannot be written, an area gets full; then the other one begins with a frame that has all
// that is known. So the area with the newest frame is all that is needed, and a frame
// that was not written to its end never was.
//
// It is used by one goroutine at a time.
type journal struct {
	file *os.File
	// area and offset are where the next frame goes, number is that of the last one.
	area   int
	offset int
	number uint64
}

// openJournal opens the file, or makes it, and returns the payloads of the newest
// frames that follow the one with the number after, or all where the state file is
// lost.
func openJournal(path string, after uint64) (_ *journal, payloads [][]byte, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %w: not a regular file", path, checkpoint.ErrCorrupt)
	}
	content := make([]byte, 2*journalArea)
	if _, err := io.ReadFull(file, content); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, err
	}
	if err := reserve(file, content); err != nil {
		return nil, nil, fmt.Errorf("reserve room for %s: %w", path, err)
	}
	j := &journal{file: file, number: after}
	for area := range 2 {
		frames, last, end := readArea(content[area*journalArea : (area+1)*journalArea])
		if last > j.number {
			payloads = frames[max(0, len(frames)-int(min(last-after, uint64(len(frames))))):]
			j.area, j.offset, j.number = area, end, last
		}
	}
	return j, payloads, nil
}

// reserve takes the blocks of the file that has this content.
func reserve(file *os.File, content []byte) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, int64(len(content)))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = file.WriteAt(content, 0)
	}
	return err
}

// readArea returns the payloads of an area's frames, the number of the last one, and
// where the next would begin.
func readArea(area []byte) (payloads [][]byte, last uint64, end int) {
	for len(area)-end >= frameHead {
		head := area[end : end+frameHead]
		length, number := int(binary.LittleEndian.Uint32(head[4:])), binary.LittleEndian.Uint64(head[8:])
		whole := end + frameHead + length
		if binary.LittleEndian.Uint32(head) != frameMagic || length > len(area) || whole > len(area) ||
			len(payloads) > 0 && number != last+1 ||
			binary.LittleEndian.Uint32(head[16:]) != frameSum(head, area[end+frameHead:whole]) {
			break
		}
		payloads = append(payloads, area[end+frameHead:whole])
		last, end = number, whole
	}
	return payloads, last, end
}

func frameSum(head, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(head[:16], table), table, payload)
}

// add writes a frame. If the area is full, it goes on in the other one with what all
// returns.
func (j *journal) add(payload []byte, all func() ([]byte, error)) (err error) {
	area, offset := j.area, j.offset
	if offset+frameHead+len(payload) > journalArea {
		area, offset = 1-area, 0
		if payload, err = all(); err != nil {
			return err
		}
	}
	frame := make([]byte, frameHead, frameHead+len(payload))
	binary.LittleEndian.PutUint32(frame, frameMagic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(frame[8:], j.number+1)
	binary.LittleEndian.PutUint32(frame[16:], frameSum(frame, payload))
	frame = append(frame, payload...)
	if offset+len(frame) > journalArea {
		return errNoRoom
	}
	if _, err := j.file.WriteAt(frame, int64(area*journalArea+offset)); err != nil {
		return err
	}
	j.area, j.offset, j.number = area, offset+len(frame), j.number+1
	return nil
}

// rewind is for a state file that covers all frames.
func (j *journal) rewind() { j.offset = 0 }
