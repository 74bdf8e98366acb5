package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/proto/openfiles"
)

// openQuestions makes the socket on which the program asks which other processes have its device nodes open:
// Landlock keeps it from inspecting them. It returns the program's end, which is also in child.
func (s *Start) openQuestions() (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	own, ask := os.NewFile(uintptr(fds[0]), "questions"), os.NewFile(uintptr(fds[1]), "questions")
	s.child = append(s.child, ask)
	s.questions, err = net.FileConn(own)
	return ask, errors.Join(err, own.Close())
}

// Answer answers the program's questions until the program or ctx ends: which processes, except the program's own
// (pid), have one of some device nodes open. Only nodes that it was given are answered for. Answer may run while Wait
// does, and returns at once if the program has no socket for questions.
func (s *Start) Answer(ctx context.Context, pid int) {
	if s.questions == nil {
		return
	}
	may := slices.Concat(s.box.Given.Open, s.box.Given.Write, s.box.Given.Read, s.box.Given.Nodes)
	for _, node := range s.box.Given.Nodes {
		if !strings.ContainsAny(node, `*?[\`) {
			may = append(may, node+"/**")
		}
	}
	openfiles.Serve(ctx, s.questions, func(ctx context.Context, nodes []string) (openfiles.Processes, error) {
		for _, node := range nodes {
			if !path.IsAbs(node) || path.Clean(node) != node || !gives(may, node) {
				return nil, fmt.Errorf("%q is no device node that the backend was given", node)
			}
		}
		return openfiles.Scan(ctx, s.box.Paths.procfs(), pid, nodes...)
	})
}
