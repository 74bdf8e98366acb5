/* The file: lines "key = value", '#' starts a comment line. Lines that are
 * none are skipped, and of two with one key the later counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"

enum { MAX_ENTRIES = 1 << 16 };

static char *trim(char *from, char *to)
{
	while (from < to && strchr(" \t\r", *from))
		from++;
	while (to > from && strchr(" \t\r", to[-1]))
		to--;
	*to = 0;
	return from;
}

static void add_line(struct file *file, char *from, char *to)
{
	char *equals = memchr(from, '=', (size_t)(to - from));
	if (!equals)
		return;
	struct entry entry = {
		.value = trim(equals + 1, to),
		.line = file->count,
	};
	entry.key = trim(from, equals);
	if (!*entry.key || *entry.key == '#' || strlen(entry.key) >= KEY)
		return;
	file->errors |= strstr(entry.key, "error.") != NULL;
	file->hangs |= strstr(entry.key, "hang.") != NULL;
	file->entries[file->count++] = entry;
}

static int by_key(const void *a, const void *b)
{
	const struct entry *one = a, *other = b;
	int order = strcmp(one->key, other->key);
	return order ? order : (one->line < other->line ? -1 : 1);
}

struct file *file_parse(char *text, size_t size)
{
	struct file *file = calloc(1, sizeof *file);
	size_t lines = 1;
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	if (lines > MAX_ENTRIES)
		lines = MAX_ENTRIES;
	struct entry *entries = calloc(lines, sizeof *entries);
	if (!file || !entries) {
		free(file);
		free(entries);
		free(text);
		return NULL;
	}
	*file = (struct file){.text = text, .entries = entries};
	for (char *line = text, *last = text + size; line < last && file->count < lines;) {
		char *stop = memchr(line, '\n', (size_t)(last - line));
		if (!stop)
			stop = last;
		add_line(file, line, stop);
		line = stop + 1;
	}
	qsort(entries, file->count, sizeof *entries, by_key);
	size_t kept = 0;
	for (size_t i = 0; i < file->count; i++)
		if (i + 1 == file->count || strcmp(entries[i].key, entries[i + 1].key))
			entries[kept++] = entries[i];
	file->count = kept;
	for (int slot = 0; slot < MAX_GPUS; slot++) {
		char key[KEY];
		snprintf(key, sizeof key, "gpu.%d.uuid", slot);
		if (file_get(file, key))
			file->gpus |= 1ull << slot;
	}
	return file;
}

void file_free(struct file *file)
{
	free(file->entries);
	free(file->text);
	free(file);
}

/* The first entry whose key is not before this one. */
static size_t lower_bound(const struct file *file, const char *key)
{
	size_t low = 0, high = file->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(file->entries[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const char *file_get(const struct file *file, const char *key)
{
	size_t at = lower_bound(file, key);
	if (at == file->count || strcmp(file->entries[at].key, key))
		return NULL;
	return file->entries[at].value;
}

const struct entry *file_range(const struct file *file, const char *prefix, size_t *count)
{
	size_t at = lower_bound(file, prefix), length = strlen(prefix);
	*count = 0;
	while (at + *count < file->count && !strncmp(file->entries[at + *count].key, prefix, length))
		++*count;
	return file->entries + at;
}
