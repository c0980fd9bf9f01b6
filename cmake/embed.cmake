# Writes OUTPUT: each of FILES (separated by '|') as a row {"NAME", R"json(TEXT)json"sv}, for a table of C++. A line break
# in these files is never within a text, so it and the indentation after it can go.
string(REPLACE "|" ";" files "${FILES}")
set(rows "")
foreach(path ${files})
  get_filename_component(name ${path} NAME)
  string(REGEX REPLACE "\\.json$" "" name ${name})
  file(READ ${path} text)
  string(REGEX REPLACE "\n *" "" text "${text}")
  string(APPEND rows "{\"${name}\", R\"json(${text})json\"sv},\n")
endforeach()
file(WRITE ${OUTPUT} "${rows}")
