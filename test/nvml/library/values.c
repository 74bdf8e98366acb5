/* What the value of a line says: numbers, times, names of errors. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "double.h"

static const struct {
	int code;
	const char *name;
} errors[] = {
	{0, "SUCCESS"},
	{1, "UNINITIALIZED"},
	{2, "INVALID_ARGUMENT"},
	{3, "NOT_SUPPORTED"},
	{4, "NO_PERMISSION"},
	{5, "ALREADY_INITIALIZED"},
	{6, "NOT_FOUND"},
	{7, "INSUFFICIENT_SIZE"},
	{8, "INSUFFICIENT_POWER"},
	{9, "DRIVER_NOT_LOADED"},
	{10, "TIMEOUT"},
	{11, "IRQ_ISSUE"},
	{12, "LIBRARY_NOT_FOUND"},
	{13, "FUNCTION_NOT_FOUND"},
	{14, "CORRUPTED_INFOROM"},
	{15, "GPU_IS_LOST"},
	{16, "RESET_REQUIRED"},
	{17, "OPERATING_SYSTEM"},
	{18, "LIB_RM_VERSION_MISMATCH"},
	{19, "IN_USE"},
	{20, "MEMORY"},
	{21, "NO_DATA"},
	{22, "VGPU_ECC_NOT_SUPPORTED"},
	{23, "INSUFFICIENT_RESOURCES"},
	{24, "FREQ_NOT_SUPPORTED"},
	{25, "ARGUMENT_VERSION_MISMATCH"},
	{26, "DEPRECATED"},
	{27, "NOT_READY"},
	{28, "GPU_NOT_FOUND"},
	{29, "INVALID_STATE"},
	{30, "RESET_TYPE_NOT_SUPPORTED"},
	{999, "UNKNOWN"},
};

#define ERRORS (sizeof errors / sizeof *errors)

const char *error_text(int error)
{
	for (size_t i = 0; i < ERRORS; i++)
		if (errors[i].code == error)
			return errors[i].name;
	return "UNKNOWN";
}

/* An error that nobody knows is UNKNOWN: a typo must not read as success. */
int value_error(const char *value)
{
	u64 code;
	for (size_t i = 0; i < ERRORS; i++)
		if (!strcasecmp(value, errors[i].name))
			return errors[i].code;
	return value_number(value, &code) && code < 1000 ? (int)code : UNKNOWN;
}

bool value_number(const char *value, u64 *number)
{
	char *stop;
	errno = 0;
	*number = *value == '-' ? (u64)strtoll(value, &stop, 0) : strtoull(value, &stop, 0);
	return *value && !*stop && !errno;
}

bool value_text(const char *value, char *text, size_t size)
{
	int length = snprintf(text, size, "%s", value);
	return length >= 0 && (size_t)length < size;
}

/* "30s", "200ms", "2m", "forever"; at most a day, nothing if it is no time. */
u64 value_milliseconds(const char *value)
{
	enum { DAY = 24 * 60 * 60 * 1000 };
	static const struct {
		const char *name;
		double milliseconds;
	} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
	char *unit;
	if (!strcmp(value, "forever"))
		return DAY;
	double amount = strtod(value, &unit);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(unit, units[i].name))
			continue;
		amount *= units[i].milliseconds;
		return amount >= DAY ? DAY : amount > 0 ? (u64)amount : 0;
	}
	return 0;
}

bool next_word(const char **text, char *word, size_t size)
{
	*text += strspn(*text, " \t,");
	size_t length = strcspn(*text, " \t,");
	if (!length)
		return false;
	snprintf(word, size, "%.*s", (int)(length < size ? length : size - 1), *text);
	*text += length;
	return true;
}
