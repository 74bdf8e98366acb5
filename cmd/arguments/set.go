package arguments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Annotations of flags: the path must exist if the flag is set, and is that of a "directory" or "file"; the flag has no effect
// without another one; it has none beside others.
const (
	existing = "accelmux_existing"
	needs    = "accelmux_needs"
	beside   = "accelmux_beside"
)

func annotate(cmd *cobra.Command, flags []string, key string, values ...string) {
	for _, name := range flags {
		f := cmd.Flag(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[key] = values
	}
}

// Dirs makes the flags complete directories, and refuses a set one that names no directory, or an empty one.
func Dirs(cmd *cobra.Command, flags ...string) {
	annotate(cmd, flags, cobra.BashCompSubdirsInDir)
	annotate(cmd, flags, existing, "directory")
}

// File makes the flag complete files with these extensions, all without one, and refuses a set one that names no file, or an
// empty one; "-" is standard input.
func File(cmd *cobra.Command, flag string, extensions ...string) {
	annotate(cmd, []string{flag}, cobra.BashCompFilenameExt, extensions...)
	annotate(cmd, []string{flag}, existing, "file")
}

// Needs refuses flags that are set without another one, without which they have no effect.
func Needs(cmd *cobra.Command, other string, flags ...string) { annotate(cmd, flags, needs, other) }

// NotBeside refuses flags that are set beside another one, beside which they have no effect.
func NotBeside(cmd *cobra.Command, other string, flags ...string) {
	annotate(cmd, flags, beside, other)
}

// checkSet returns an error for the first flag whose path is not there, or that has no effect. It runs before a command.
func checkSet(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if problem := problemOf(cmd, f); problem != "" && err == nil {
			err = cmd.FlagErrorFunc()(cmd, errors.New(problem))
		}
	})
	return err
}

func problemOf(cmd *cobra.Command, f *pflag.Flag) string {
	if want := f.Annotations[existing]; want != nil {
		if why := missing(f.Value.String(), want[0]); why != "" {
			_, usage := pflag.UnquoteUsage(f)
			usage, _, _ = strings.Cut(usage, ";")
			usage, _, _ = strings.Cut(usage, " (")
			return fmt.Sprintf("--%s (%s): %s", f.Name, usage, why)
		}
	}
	if other := f.Annotations[needs]; other != nil && !cmd.Flags().Changed(other[0]) {
		return fmt.Sprintf("--%s has no effect without --%s", f.Name, other[0])
	}
	if other := f.Annotations[beside]; other != nil && cmd.Flags().Changed(other[0]) {
		return fmt.Sprintf("--%s has no effect beside --%s", f.Name, other[0])
	}
	return ""
}

// missing returns why a path is not that of a directory or file with something in it; "" if it is.
func missing(path, want string) string {
	if path == "" {
		return "the name is empty"
	}
	if path == "-" && want == "file" {
		return ""
	}
	info, err := os.Stat(path)
	isDir := want == "directory"
	switch cause := new(fs.PathError); {
	case errors.Is(err, fs.ErrNotExist):
		return path + " does not exist"
	case errors.As(err, &cause):
		return fmt.Sprintf("%s: %v", path, cause.Err)
	case err != nil:
		return err.Error()
	case info.IsDir() != isDir:
		return path + " is not a " + want
	case info.Mode().IsRegular() && info.Size() == 0:
		return path + " is empty"
	case !isDir:
		return ""
	}
	entries, err := os.ReadDir(path)
	switch {
	case err != nil:
		return err.Error()
	case len(entries) == 0:
		return path + " is empty"
	}
	return ""
}
