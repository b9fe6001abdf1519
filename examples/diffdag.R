# diffdag from R: two data frames in, what changed out. Copy the two functions,
# or source() this file. They need the package jsonlite and the program diffdag,
# in PATH or named by the environment variable DIFFDAG.

# Compare two data frames. `options` are further words of `diffdag fit`, such as
# c("--resamples", "200").
fit_diffdag <- function(first, second, out, labels = c("first", "second"),
                        options = character(),
                        program = Sys.getenv("DIFFDAG", "diffdag")) {
  folder <- tempfile("diffdag")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  files <- file.path(folder, c("first.csv", "second.csv"))
  write.csv(first, files[1], row.names = FALSE, fileEncoding = "UTF-8")
  write.csv(second, files[2], row.names = FALSE, fileEncoding = "UTF-8")
  labels <- paste(labels, collapse = ",")
  words <- c("fit", files, "--labels", labels, "--out", out, options)
  # system2 hands the words to a shell: without quotes, a blank would end one.
  said <- file.path(folder, "said.txt")
  code <- system2(program, shQuote(words), stdout = FALSE, stderr = said)
  lines <- readLines(said, warn = FALSE, encoding = "UTF-8")
  if (code != 0) {
    lines <- c(paste("exit code", code), lines)
    stop(paste(lines, collapse = "\n"), call. = FALSE)
  }
  if (length(lines)) message(paste(lines, collapse = "\n"))
  read_diffdag(out)
}

# Read the folder of a result: `edges` is edges.csv as a data frame, `all` is
# all of result.json as a list.
read_diffdag <- function(folder) {
  # Names of variables stay text, also where they look like numbers, and "NA" is
  # a name like any other.
  text <- c("source", "target", "directed", "settled")
  edges <- read.csv(
    file.path(folder, "edges.csv"), na.strings = "", encoding = "UTF-8",
    colClasses = setNames(rep("character", length(text)), text)
  )
  edges$directed <- edges$directed == "True"
  edges$settled <- edges$settled == "True"
  all <- jsonlite::fromJSON(file.path(folder, "result.json"))
  list(edges = edges, all = all)
}
