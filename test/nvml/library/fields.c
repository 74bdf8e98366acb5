/* Field values: what has an ID instead of a function. Some say what functions
 * say as well; for these the same key counts, unless the file has a field's. */
#include <stdio.h>
#include <string.h>

#include "double.h"

static const struct {
	u32 id;
	bool wide; /* 64 bits */
	const char *key;
} known[] = {
	{1, false, "ecc.current"},
	{2, false, "ecc.pending"},
	{3, true, "ecc.corrected.volatile"},
	{4, true, "ecc.uncorrected.volatile"},
	{5, true, "ecc.corrected.aggregate"},
	{6, true, "ecc.uncorrected.aggregate"},
	{82, false, "temperature.memory"},
	{83, true, "energy"},
	{91, false, "links"},
	{94, false, "pcie.replays"},
	{142, false, "remapped-rows.corrected"},
	{143, false, "remapped-rows.uncorrected"},
	{144, false, "remapped-rows.pending"},
	{145, false, "remapped-rows.failure"},
	{230, false, "recovery-action"},
};

#define KNOWN (sizeof known / sizeof *known)

static bool is_wide(u32 id)
{
	for (size_t i = 0; i < KNOWN; i++)
		if (known[i].id == id)
			return known[i].wide;
	return false;
}

static const char *field_value(const struct call *call, const FieldValue *asked)
{
	const char *value = get(call, "field.%u.%u", asked->fieldId, asked->scopeId);
	if (!value)
		value = get(call, "field.%u", asked->fieldId);
	for (size_t i = 0; !value && i < KNOWN; i++)
		if (known[i].id == asked->fieldId)
			value = get(call, "%s", known[i].key);
	return value;
}

/* "1", "u64 5", "i32 -1", "double 0.5" or "error NOT_SUPPORTED". */
static void field(const struct call *call, FieldValue *out)
{
	enum { DOUBLE, U32, U64 = 3, I64, I32 };
	char type[16], wide[64];
	const char *value = field_value(call, out), *rest;
	u64 number = 0;
	out->timestamp = (long long)now_ms() * 1000;
	out->latencyUsec = 0;
	out->nvmlReturn = NOT_SUPPORTED;
	memset(&out->value, 0, sizeof out->value);
	rest = value;
	if (!value || !next_word(&rest, type, sizeof type))
		return;
	if (!next_word(&rest, wide, sizeof wide)) {
		snprintf(wide, sizeof wide, "%s", type);
		snprintf(type, sizeof type, "%s", is_wide(out->fieldId) ? "u64" : "u32");
	}
	if (!strcmp(type, "error")) {
		out->nvmlReturn = (u32)value_error(wide);
		return;
	}
	out->nvmlReturn = SUCCESS;
	if (!strcmp(type, "double")) {
		out->valueType = DOUBLE;
		out->nvmlReturn = sscanf(wide, "%lf", &out->value.d) == 1 ? SUCCESS : UNKNOWN;
		return;
	}
	out->valueType = !strcmp(type, "u64") ? U64 : !strcmp(type, "i64") ? I64 : !strcmp(type, "i32") ? I32 : U32;
	if (!value_number(wide, &number))
		out->nvmlReturn = UNKNOWN;
	if (out->valueType == U64 || out->valueType == I64)
		out->value.ull = number;
	else
		out->value.ui = (u32)number;
}

static int fields(const struct call *call, int count, FieldValue *values)
{
	if (!values || count < 1)
		return INVALID_ARGUMENT;
	for (int i = 0; i < count; i++)
		field(call, &values[i]);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetFieldValues(Device device, int count, FieldValue *values)
	ANSWER(device, fields(c, count, values))
