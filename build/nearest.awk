# Prints the name, of one per line, that needs the fewest edits to become given, if these are few.
function least(a, b) { return a < b ? a : b }

BEGIN { given = toupper(given) }

{
	for (j = 0; j <= length($0); j++) d[0, j] = j
	for (i = 1; i <= length(given); i++) {
		d[i, 0] = i
		for (j = 1; j <= length($0); j++)
			d[i, j] = least(d[i - 1, j - 1] + (substr(given, i, 1) != substr($0, j, 1)), 1 + least(d[i - 1, j], d[i, j - 1]))
	}
	if (best == "" || d[length(given), length($0)] < edits) {
		best = $0
		edits = d[length(given), length($0)]
	}
}

END { if (best != "" && 3 * edits <= length(given)) printf " (did you mean %s?)", best }
