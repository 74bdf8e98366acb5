package nvml

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed library
var sources embed.FS

// LibraryName is the file name that programs which use NVML look for.
const LibraryName = "libnvidia-ml.so.1"

// Build compiles the library into the directory and returns its path.
// Functions in without are not in it, as in a driver that is too old for them.
// It needs a C compiler: the environment's CC, or cc.
func Build(ctx context.Context, dir string, without ...string) (string, error) {
	code, err := os.MkdirTemp(dir, "source-")
	if err != nil {
		return "", fmt.Errorf("build the NVML double: %w", err)
	}
	defer func() { _ = os.RemoveAll(code) }()
	files, err := unpack(code)
	if err != nil {
		return "", fmt.Errorf("build the NVML double: %w", err)
	}
	arguments := []string{"-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname," + LibraryName}
	// Threads of it may be alive at dlclose.
	arguments = append(arguments, "-Wl,-z,nodelete")
	if len(without) > 0 {
		script := filepath.Join(code, "without.map")
		text := "{ global: *; local: " + strings.Join(without, "; ") + "; };\n"
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("build the NVML double: %w", err)
		}
		arguments = append(arguments, "-Wl,--version-script="+script)
	}
	for _, file := range files {
		if filepath.Base(file) != "sizes.c" && strings.HasSuffix(file, ".c") {
			arguments = append(arguments, file)
		}
	}
	library := filepath.Join(dir, LibraryName)
	return library, compile(ctx, library, arguments...)
}

func unpack(dir string) (files []string, err error) {
	err = fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, entry.Name())
		files = append(files, file)
		return os.WriteFile(file, text, 0o600)
	})
	return files, err
}

func compile(ctx context.Context, output string, arguments ...string) error {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		return fmt.Errorf("the NVML double needs a C compiler, set CC or install cc: %w", err)
	}
	all := append([]string{"-std=c11", "-O2", "-g", "-pthread", "-o", output}, arguments...)
	said, err := exec.CommandContext(ctx, compiler, all...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile the NVML double with %s: %w\n%s", compiler, err, said)
	}
	return nil
}
